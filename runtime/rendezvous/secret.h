#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rollcall::rendezvous {

/// What all processes of a world or run know and nobody else does: the key by which they know each other (sealing.h).
class Secret {
 public:
  static constexpr std::size_t kSize = 32;
  using Bytes = std::array<unsigned char, kSize>;

  /// The one of the world or run `name`, where `drawn` is known to its user alone: no other name's tells anything of
  /// it.
  [[nodiscard]] static Secret of(std::string_view drawn, std::string_view name);

  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

  /// Takes the same time wherever they differ.
  [[nodiscard]] bool operator==(const Secret& other) const;

 private:
  explicit Secret(const Bytes& bytes) : bytes_(bytes) {}

  Bytes bytes_;
};

/// 256 bits of the kernel's random numbers, as 64 hexadecimal digits: what a secret is made of.
[[nodiscard]] std::string draw_secret();

}  // namespace rollcall::rendezvous
