#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace rollcall::checkpoint::exchange {

static_assert(std::endian::native == std::endian::little, "tensors are copied as they lie in memory");

/// The number at `at`, which the caller has checked to lie within `bytes`.
template <std::integral Number>
[[nodiscard]] Number number_at(std::span<const std::byte> bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

template <std::integral Number>
void append_number(std::string& text, Number number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  text.append(bytes, sizeof(number));
}

}  // namespace rollcall::checkpoint::exchange
