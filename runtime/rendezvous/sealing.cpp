#include "runtime/rendezvous/sealing.h"

#include <utility>

namespace rollcall::rendezvous {
namespace {

constexpr std::size_t kHeader = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t kTag = crypto_secretstream_xchacha20poly1305_ABYTES;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

std::string random_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  randombytes_buf(bytes.data(), size);
  return bytes;
}

}  // namespace

Sealing::Sealing(End end, Seal seal)
    : end_(end), seal_(std::move(seal)), own_(std::string(kProtocol) + random_bytes(kOpening - kProtocol.size())) {}

/// Derives the key for texts of `sender`. Openings have a fixed length, so that no two connections yield the same
/// input.
Secret::Bytes Sealing::key_from(End sender, std::string_view other) const {
  const std::string_view own = own_;
  std::string text(sender == End::Client ? "c" : "s");
  text.append(end_ == End::Client ? own : other).append(end_ == End::Client ? other : own).append(seal_.purpose);
  Secret::Bytes key{};
  static_assert(key.size() == crypto_auth_hmacsha256_BYTES);
  static_assert(key.size() == crypto_auth_hmacsha256_KEYBYTES);
  static_assert(key.size() == crypto_secretstream_xchacha20poly1305_KEYBYTES);
  crypto_auth_hmacsha256(key.data(), bytes_of(text), text.size(), seal_.secret.bytes().data());
  return key;
}

void Sealing::take_opening(std::string_view other) {
  sealing_key_ = key_from(end_, other);
  opening_key_ = key_from(end_ == End::Client ? End::Server : End::Client, other);
  ready_ = true;
}

std::size_t Sealing::sealed_size(std::string_view text) const {
  return (has_sealed_ ? 0 : kHeader) + kTag + text.size();
}

void Sealing::seal(std::string_view text, std::string& bytes) {
  std::size_t at = bytes.size();
  bytes.resize(at + sealed_size(text));
  if (!std::exchange(has_sealed_, true)) {
    crypto_secretstream_xchacha20poly1305_init_push(&outgoing_, bytes_of(bytes) + at, sealing_key_.data());
    at += kHeader;
  }
  crypto_secretstream_xchacha20poly1305_push(&outgoing_, bytes_of(bytes) + at, nullptr, bytes_of(text), text.size(),
                                             nullptr, 0, crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
}

std::optional<std::string> Sealing::open(std::string_view sealed) {
  const std::size_t header = has_opened_ ? 0 : kHeader;
  if (!ready_ || sealed.size() < header + kTag) {
    return std::nullopt;
  }
  if (!std::exchange(has_opened_, true) &&
      crypto_secretstream_xchacha20poly1305_init_pull(&incoming_, bytes_of(sealed), opening_key_.data()) != 0) {
    return std::nullopt;
  }
  sealed.remove_prefix(header);
  std::string text(sealed.size() - kTag, '\0');
  unsigned char tag = 0;
  const bool opened = crypto_secretstream_xchacha20poly1305_pull(&incoming_, bytes_of(text), nullptr, &tag,
                                                                 bytes_of(sealed), sealed.size(), nullptr, 0) == 0;
  return opened && tag == crypto_secretstream_xchacha20poly1305_TAG_MESSAGE ? std::optional(std::move(text))
                                                                            : std::nullopt;
}

}  // namespace rollcall::rendezvous
