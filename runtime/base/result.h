#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/base/error_kind.h"

namespace rollcall {

/// An expected failure, as a value. The four texts are what a user needs at 2 a.m.: which setting, which value, why it
/// does not work, what to do. None ends in punctuation; `action` starts with a verb ("set it to ...").
struct Error {
  std::string setting;  ///< option, key, variable or thing concerned: "port.range", "--data", "MASTER_PORT"
  std::string value;    ///< the value that was refused; empty where none is concerned
  std::string reason;   ///< what is wrong with it
  std::string action;   ///< what to try; empty only where nothing can be advised
  ErrorKind kind = ErrorKind::Usage;
  bool of_this_node = false;  ///< other nodes of the step need not have it: a file, a port range, an interface is wrong

  /// What a program that ends with this error exits with.
  [[nodiscard]] ExitCode exit_code() const { return rollcall::exit_code(kind); }
  /// "<setting>: <value>: <reason>; try <action>" on one line, as a part of another one: control characters replaced by
  /// '?', and what is too long to be read cut.
  [[nodiscard]] std::string text() const;
  /// The same as a line of its own: "rollcall: <setting>: ...".
  [[nodiscard]] std::string message() const;
};

/// Makes an Error. Reads well at the point of return: `return fail("port.range", text, "is empty", "setting it to
/// ...")`.
[[nodiscard]] Error fail(std::string setting, std::string value, std::string reason, std::string action,
                         ErrorKind kind = ErrorKind::Usage);

/// The text of an errno value, thread-safe ("No space left on device").
[[nodiscard]] std::string errno_text(int error_number);

/// A T, or the Error that says why there is none (std::expected of C++23 in miniature). Test it before use: reading the
/// value of a failed Result is a bug, caught by an assertion in debug builds.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: functions return either a value or `fail(...)`.
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  [[nodiscard]] const T& value() const& { return checked(); }
  [[nodiscard]] T& value() & { return const_cast<T&>(std::as_const(*this).checked()); }
  [[nodiscard]] T&& value() && { return std::move(value()); }
  const T& operator*() const& { return checked(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(value()); }
  const T* operator->() const { return &checked(); }
  T* operator->() { return &value(); }

  [[nodiscard]] const Error& error() const {
    assert(!has_value());
    return *std::get_if<1>(&content_);
  }

 private:
  [[nodiscard]] const T& checked() const {
    assert(has_value());
    return *std::get_if<0>(&content_);
  }

  std::variant<T, Error> content_;
};

/// Success, or the Error that says why not. `return {};` is success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }

  [[nodiscard]] const Error& error() const {
    assert(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

// The one way in which a function hands on the error of another that it called. Both take an expression of type
// Result; commas in it need no parentheses.

/// Returns the error of a Result from the enclosing function, where it is one.
#define RETURN_IF_ERROR(...)                                             \
  do {                                                                   \
    if (const auto& rollcall_result = (__VA_ARGS__); !rollcall_result) { \
      return rollcall_result.error();                                    \
    }                                                                    \
  } while (false)

/// `ASSIGN_OR_RETURN(const Settings settings, load(...))` declares `settings` with the value of a Result, or returns
/// its error from the enclosing function.
#define ASSIGN_OR_RETURN(declaration, ...) \
  ROLLCALL_ASSIGN_OR_RETURN(ROLLCALL_UNIQUE(rollcall_result_, __COUNTER__), declaration, __VA_ARGS__)
#define ROLLCALL_ASSIGN_OR_RETURN(result, declaration, ...) \
  auto result = (__VA_ARGS__);                              \
  if (!result) {                                            \
    return result.error();                                  \
  }                                                         \
  declaration = *std::move(result)
#define ROLLCALL_UNIQUE(name, number) ROLLCALL_JOIN(name, number)
#define ROLLCALL_JOIN(name, number) name##number

// How a rank tells others whether it succeeded.

/// Empty for success, else the Error's kind and texts with a NUL between them; a NUL inside of one becomes '?'.
[[nodiscard]] std::string serialise(const Result<void>& outcome);

/// The other way round; nothing for a text that serialise() does not make.
[[nodiscard]] std::optional<Result<void>> parse_outcome(std::string_view text);

}  // namespace rollcall
