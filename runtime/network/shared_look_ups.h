#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/network/network_view.h"

namespace rollcall::network {

/// Formats resolved names as text for other processes of this node, with one line per name. A name or error with
/// control characters is skipped. Pure.
[[nodiscard]] std::string to_text(const std::vector<ResolvedName>& names);
/// Parses the text of to_text(), and skips invalid lines. Pure.
[[nodiscard]] std::vector<ResolvedName> parse_look_ups(std::string_view text);

/// Memory that the tasks of a node share by a file descriptor. It caches look-ups, so that a node asks its resolver
/// once for all tasks, and records whether a task reports for the node. Its size is fixed, and it ends with the
/// processes. A process that ends at any time does not block the others.
///
/// slurmstepd creates it and must not read it, because the tasks' user may write to it.
class SharedLookUps {
 public:
  /// Maps `memory`, a file of hook::kSharedSize bytes that are zero at first; it stays open. Nothing where it cannot be
  /// mapped.
  [[nodiscard]] static std::optional<SharedLookUps> open(int memory);

  /// Returns the cached addresses of a name, or calls `look_up` and caches them. Other processes wait meanwhile, so
  /// that each name is looked up once as long as the cache has room (some hundred names).
  [[nodiscard]] ResolvedName resolve(const std::string& name, const LookUp& look_up);

  /// Returns true in the first process that calls it, and false in all others.
  [[nodiscard]] bool claim_report();

 private:
  struct Page;
  SharedLookUps(int memory, Page* page) : memory_(memory), page_(page) {}

  int memory_;
  Page* page_;
};

}  // namespace rollcall::network
