#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace rollcall {

/// Returns whether this is the first of this user's processes on this host that calls it with this `occasion`. Later
/// callers get false until this process ends or executes another program. Use it for a message that many processes
/// could print and one should. Returns true where the answer is unknown: a repeated message is better than none.
///
/// The first process binds a socket of that name in the abstract namespace (unix(7)), which leaves no file behind. A
/// socket of another user does not count.
[[nodiscard]] bool is_first_on_host(const std::string& occasion);

/// Returns the answer of ask(), which only one of this user's processes on this host calls for each `occasion`: the
/// first one calls it and sends the answer to the others as long as it lives. Other users get nothing. They wait at
/// most `patience`, and call ask() themselves where the first process has ended or is slower. Answers are cut to 4096
/// bytes.
[[nodiscard]] std::string ask_once_per_host(const std::string& occasion, std::chrono::milliseconds patience,
                                            const std::function<std::string()>& ask);

}  // namespace rollcall
