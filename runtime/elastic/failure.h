#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

/// What an error file of torch's @record says in one line (`{"message": {"message": "ValueError: ...", "extraInfo":
/// {...}}}` or `{"message": "..."}`); nothing where the text is none.
[[nodiscard]] std::optional<std::string> error_file_message(std::string_view json);

/// The same file with the exit code that the worker could not know (`message.errorCode`), as torchrun hands it to who
/// started it; `json` itself where it is none.
[[nodiscard]] std::string with_error_code(std::string_view json, int exit_code);

/// "rank 3 (local rank 1, pid 4711) on node07: killed by signal 9 (SIGKILL)": one line, for people.
[[nodiscard]] std::string describe(const Cause& cause);

}  // namespace rollcall::elastic
