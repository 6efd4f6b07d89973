// Any bytes to either end of a sealed connection, and a conversation of two ends of which bytes are changed on the way.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/rendezvous/frames.h"
#include "tests/fuzz/require.h"

namespace {

using namespace rollcall::rendezvous;
using rollcall::fuzz::require;

Seal seal() { return {Secret::of("drawn", "world"), "test"}; }

std::string sent_by(FrameBuffer& from) {
  std::string bytes(from.outgoing());
  from.sent(bytes.size());
  return bytes;
}

/// A stranger says nothing that is heard, before the openings or after.
void check_stranger(std::string_view bytes, End end) {
  FrameBuffer one(end, seal());
  one.append(bytes);
  require(!one.next() && !one.proven(), "bytes of a stranger are not heard");
  FrameBuffer other(end, seal());
  other.append(std::string(Sealing::kProtocol) + std::string(Sealing::kOpening - Sealing::kProtocol.size(), 'x'));
  for (std::string_view left = bytes; !left.empty(); left.remove_prefix(std::min<std::size_t>(3, left.size()))) {
    other.append(left.substr(0, 3));
    require(!other.next() && !other.proven(), "bytes of a stranger are not heard after an opening");
  }
  require(other.size() <= bytes.size(), "no more is kept than came");
}

/// The first four bytes say where which bit is changed.
void check_change(std::string_view bytes) {
  constexpr std::array<std::string_view, 3> kTexts{"one", "", "three"};
  FrameBuffer client(End::Client, seal());
  FrameBuffer server(End::Server, seal());
  server.append(sent_by(client));
  client.append(sent_by(server));
  for (const std::string_view text : kTexts) {
    client.queue(text);
  }
  std::string said = sent_by(client);
  const std::size_t at =
      (static_cast<unsigned char>(bytes[0]) * 256U + static_cast<unsigned char>(bytes[1])) % said.size();
  said[at] = static_cast<char>(said[at] ^ bytes[2]);
  if (bytes[3] % 2 != 0) {
    said.insert(at, bytes.substr(4));
  }
  server.append(said);
  std::size_t heard = 0;
  while (const std::optional<std::string> text = server.next()) {
    require(heard < kTexts.size() && *text == kTexts.at(heard), "what is heard is what was said, in its order");
    ++heard;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_stranger(bytes, End::Server);
  check_stranger(bytes, End::Client);
  if (size >= 4) {
    check_change(bytes);
  }
  return 0;
}
