#pragma once

#include <cassert>
#include <optional>
#include <utility>
#include <variant>

#include "runtime/base/error.h"

namespace rollcall {

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

}  // namespace rollcall
