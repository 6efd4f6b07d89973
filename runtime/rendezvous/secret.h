#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rollcall::rendezvous {

/// A key that only the processes of one world or run know, by which they authenticate each other (sealing.h).
class Secret {
 public:
  static constexpr std::size_t kSize = 32;
  using Bytes = std::array<unsigned char, kSize>;

  /// Derives the secret of the world or run `name` from `drawn`, which only its user knows. The secrets of other names
  /// reveal nothing about it.
  [[nodiscard]] static Secret of(std::string_view drawn, std::string_view name);

  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

  /// Compares in constant time.
  [[nodiscard]] bool operator==(const Secret& other) const;

 private:
  explicit Secret(const Bytes& bytes) : bytes_(bytes) {}

  Bytes bytes_;
};

/// Returns 256 random bits from the kernel as 64 hexadecimal digits, from which secrets are derived.
[[nodiscard]] std::string draw_secret();

}  // namespace rollcall::rendezvous
