#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/base/error_kind.h"

namespace rollcall {

/// An expected failure as a value. Its four texts say which setting is concerned, which value it has, what is wrong and
/// what to try. None ends with punctuation. `action` follows the word "try": it is a gerund ("setting it to ..."), an
/// option ("--x=4") or a command ("sinfo -N -l").
struct Error {
  std::string setting;  ///< the option, key, variable or object concerned: "port.range", "--data", "MASTER_PORT"
  std::string value;    ///< the refused value; empty where there is none
  std::string reason;   ///< a clause that says what is wrong: "is empty"
  std::string action;   ///< what to try; empty only where there is no advice
  ErrorKind kind = ErrorKind::Usage;
  bool of_this_node =
      false;  ///< other nodes of the step may not have this error: a file, port or interface of this one

  /// Returns the exit code of a program that ends with this error.
  [[nodiscard]] ExitCode exit_code() const { return rollcall::exit_code(kind); }
  /// Returns "<setting>: <value>: <reason>; try <action>" on one line. Control characters become '?', and very long
  /// parts are cut.
  [[nodiscard]] std::string text() const;
  /// Returns text() after "rollcall: ".
  [[nodiscard]] std::string message() const;
};

/// Returns an Error: `return fail("port.range", text, "is empty", "setting it to 20000-29999")`.
[[nodiscard]] Error fail(std::string setting, std::string value, std::string reason, std::string action,
                         ErrorKind kind = ErrorKind::Usage);

/// Returns the text of an errno value ("No space left on device"). Thread-safe.
[[nodiscard]] std::string errno_text(int error_number);

/// A T or an Error, like std::expected of C++23. Test it before use: reading the value of a failed Result is a bug,
/// which an assertion catches in debug builds.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that functions can return a value or `fail(...)`.
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

/// Success or an Error. `return {};` is success.
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

// These macros return the error of a called function. Both take an expression of type Result; commas in it need no
// parentheses.

/// Returns the error of a Result from the enclosing function, where it holds one.
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

// These functions transfer a result between ranks.

/// Returns the empty text for success, else the Error's kind and texts separated by NUL. A NUL in a text becomes '?'.
[[nodiscard]] std::string serialise(const Result<void>& outcome);

/// Parses the text of serialise(). Nothing where it is invalid.
[[nodiscard]] std::optional<Result<void>> parse_outcome(std::string_view text);

}  // namespace rollcall
