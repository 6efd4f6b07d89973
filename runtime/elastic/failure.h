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

/// A cause with its age relative to a common moment.
struct AgedCause {
  Cause cause;
  std::int64_t age_nanoseconds = 0;
};

/// Returns the cause that the others follow from, which is the oldest. Peers' reports of broken connections can arrive
/// before the death of a process by KILL, SEGV, BUS, ILL or FPE is seen (by up to 1 s), and long before a node is known
/// to be lost (by up to 5 s): within that time, such a death or loss comes first. Unset without causes. Pure.
[[nodiscard]] std::optional<Cause> choose_first_cause(const std::vector<AgedCause>& causes);

/// The failures of one generation's workers and nodes as agents reported them. The latest report of a worker replaces
/// earlier ones, since it has more details. Memory is bounded: 1,024 causes a node and kLongestMessage bytes a text are
/// kept.
class Causes {
 public:
  /// Records why the worker that `cause` names ended; `now`: when an agent reported it.
  void add(Cause cause, std::chrono::steady_clock::time_point now);
  /// Records why a node was lost or left.
  void add_node(Cause cause, std::chrono::steady_clock::time_point now);
  /// Returns choose_first_cause() of the recorded causes.
  [[nodiscard]] std::optional<Cause> first() const;
  void clear() { causes_.clear(); }

 private:
  using WorkerKey =
      std::pair<std::uint32_t, std::uint32_t>;  ///< group rank, then local rank or a number above all of them
  void keep(const WorkerKey& key, Cause cause, std::chrono::steady_clock::time_point now);

  std::map<WorkerKey, AgedCause> causes_;  ///< ages relative to the clock's epoch
};

/// Longer error files are not read.
inline constexpr std::size_t kLongestErrorFile = std::size_t{1} << 20;

/// Returns the content of an error file of torch's @record as one line (`{"message": {"message": "ValueError: ...",
/// "extraInfo": {...}}}` or `{"message": "..."}`); unset where the text is not such a file.
[[nodiscard]] std::optional<std::string> error_file_message(std::string_view json);

/// Returns the file with the exit code (`message.errorCode`), which the worker could not know; torchrun passes it to
/// its own parent likewise. Returns `json` unchanged where it is not an error file.
[[nodiscard]] std::string with_error_code(std::string_view json, int exit_code);

/// Returns "9 (SIGKILL)"; the number alone for a signal without a name. Pure.
[[nodiscard]] std::string signal_text(int signal);

/// Returns one line for the user: "rank 3 (local rank 1, pid 4711) on node07: killed by signal 9 (SIGKILL)".
[[nodiscard]] std::string describe(const Cause& cause);

}  // namespace rollcall::elastic
