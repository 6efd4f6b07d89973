#include "runtime/rendezvous/secret.h"

#include <fmt/format.h>
#include <sodium.h>

namespace rollcall::rendezvous {
namespace {

/// Initialises libsodium. Called here, because nothing is encrypted without a secret.
void begin_with_sodium() { [[maybe_unused]] static const int initialised = sodium_init(); }

}  // namespace

Secret Secret::of(std::string_view drawn, std::string_view name) {
  begin_with_sodium();
  // The length separates the two parts unambiguously.
  const std::string text = fmt::format("rollcall secret {} {}{}", drawn.size(), drawn, name);
  Bytes bytes{};
  crypto_generichash(bytes.data(), bytes.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     nullptr, 0);
  return Secret(bytes);
}

bool Secret::operator==(const Secret& other) const {
  return sodium_memcmp(bytes_.data(), other.bytes_.data(), kSize) == 0;
}

std::string draw_secret() {
  begin_with_sodium();
  Secret::Bytes bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace rollcall::rendezvous
