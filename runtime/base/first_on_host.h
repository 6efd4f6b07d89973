#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace rollcall {

/// Whether this is the first of this user's processes on this host to ask with these words. It stays so until the
/// process ends or becomes another program: who asks later gets false. For what many processes find out alike and one
/// is to say. True as well where nothing can be found out: said twice is better than not at all.
///
/// By the name of a socket in the abstract namespace (unix(7)), which leaves nothing behind; one of another user's does
/// not count.
[[nodiscard]] bool is_first_on_host(const std::string& occasion);

/// What ask() answers, asked by one of this user's processes on this host that come with these words, for all of them:
/// the first asks, and tells the others as long as it lives; they wait `patience` at most. Who is told nothing (the
/// first has ended, or is slower) asks itself. Of an answer's bytes the first 4096 count.
[[nodiscard]] std::string asked_once_on_host(const std::string& occasion, std::chrono::milliseconds patience,
                                             const std::function<std::string()>& ask);

}  // namespace rollcall
