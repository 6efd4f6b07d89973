#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/elastic/membership.h"

namespace rollcall::elastic {

/// A cause, and how long before some common moment it happened.
struct AgedCause {
  Cause cause;
  std::int64_t age_nanoseconds = 0;
};

/// The cause that the others follow from: the oldest. But what its peers say of broken connections may reach us before
/// the death of a process that KILL, SEGV, BUS, ILL or FPE ended (by up to a second), and long before a node is known
/// to be lost (by up to five): within that time these go before. Nothing for no causes. Pure.
[[nodiscard]] std::optional<Cause> choose_first_cause(const std::vector<AgedCause>& causes);

/// Why workers and nodes of one generation ended otherwise than well, as agents tell it. Of each worker the latest word
/// counts, which knows most; of a node 1,024 are kept, and of texts kLongestMessage bytes: nobody fills this process's
/// memory.
class Causes {
 public:
  /// Keeps why the worker that `cause` names ended; `now`: when an agent told it.
  void add(Cause cause, std::chrono::steady_clock::time_point now);
  /// Keeps why a node itself ended.
  void add_node(Cause cause, std::chrono::steady_clock::time_point now);
  /// choose_first_cause()
  [[nodiscard]] std::optional<Cause> first() const;
  void clear() { causes_.clear(); }

 private:
  using Place = std::pair<std::uint32_t, std::uint32_t>;  ///< group rank, then local rank or beyond all of them
  void keep(const Place& place, Cause cause, std::chrono::steady_clock::time_point now);

  std::map<Place, AgedCause> causes_;  ///< their age at the clock's beginning
};

/// A longer error file is not read.
inline constexpr std::size_t kLongestErrorFile = std::size_t{1} << 20;

/// What an error file of torch's @record says in one line (`{"message": {"message": "ValueError: ...", "extraInfo":
/// {...}}}` or `{"message": "..."}`); nothing where the text is none.
[[nodiscard]] std::optional<std::string> error_file_message(std::string_view json);

/// The same file with the exit code that the worker could not know (`message.errorCode`), as torchrun hands it to who
/// started it; `json` itself where it is none.
[[nodiscard]] std::string with_error_code(std::string_view json, int exit_code);

/// "rank 3 (local rank 1, pid 4711) on node07: killed by signal 9 (SIGKILL)": one line, for people.
[[nodiscard]] std::string describe(const Cause& cause);

}  // namespace rollcall::elastic
