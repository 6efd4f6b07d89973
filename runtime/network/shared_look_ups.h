#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/network/network_view.h"

namespace rollcall::network {

/// Names that were looked up, as text for other processes of this node, and back. One line a name; a name or error that
/// holds control characters is left out. Parsing believes nothing: a line of another form, or with what is no address,
/// is passed over. Pure.
[[nodiscard]] std::string to_text(const std::vector<ResolvedName>& names);
[[nodiscard]] std::vector<ResolvedName> parse_look_ups(std::string_view text);

/// What processes share that have the same memory by descriptor: the names that one of them looked up, so that a node
/// asks its resolver once however many tasks it has; and who of them speaks for the node. The memory is of fixed size
/// and goes away with the processes. A process that ends in the middle leaves nothing behind that others would wait
/// for.
///
/// Its maker, slurmstepd, need not look at it again, and must not: it is the tasks', whose user may write there.
class SharedLookUps {
 public:
  /// `memory`: a file of hook::kSharedSize bytes, at first of zeros, which stays open. Nothing where it cannot be
  /// mapped.
  [[nodiscard]] static std::optional<SharedLookUps> open(int memory);

  /// The name's addresses, from whoever asked first or by `look_up`. Others wait as long as that takes. Pointless
  /// look-ups by several at once are ruled out while there is room for answers (some hundred names).
  [[nodiscard]] ResolvedName resolve(const std::string& name, const LookUp& look_up);

  /// True for the first of the processes that asks, false for all others.
  [[nodiscard]] bool claim_to_speak();

 private:
  struct Page;
  SharedLookUps(int memory, Page* page) : memory_(memory), page_(page) {}

  int memory_;
  Page* page_;
};

}  // namespace rollcall::network
