// What a rank says to rank 0, to the doctor's or from it, and any other bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/doctor/wire/message.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/socket.h"
#include "tests/fuzz/require.h"

namespace {

using namespace rollcall;
using fuzz::require;

/// What is read as a message is written and read again as the same.
void check_message(std::string_view text) {
  if (const auto request = doctor::parse_request(text, 4)) {
    const std::string again = to_text(*request);
    const auto back = doctor::parse_request(again, 4);
    require(back && to_text(*back) == again, "a request survives the journey");
  }
  const std::string benchmark = to_text(doctor::parse_benchmark(text));
  require(to_text(doctor::parse_benchmark(benchmark)) == benchmark, "a benchmark survives the journey");
  if (const Result<doctor::TaskFacts> facts = doctor::task_facts_from_json(text)) {
    const std::string again = to_json_text(*facts);
    const Result<doctor::TaskFacts> back = doctor::task_facts_from_json(again);
    require(back && to_json_text(*back) == again, "facts survive the journey");
  } else {
    require(!facts.error().message().empty(), "an error says why");
  }
  if (const auto hello = rendezvous::parse_hello(std::string(text))) {
    const auto back = rendezvous::parse_hello(to_text(*hello));
    require(back && to_text(*back) == to_text(*hello), "a hello survives the journey");
  }
  require(rendezvous::refusal_of_another_version(std::string(text)).size() < 200, "what is said again is short");
  require(rendezvous::reason_of_refusal(std::string(text)).value_or("").size() <= text.size(),
          "a reason is a part of the text");
  if (const auto endpoint = rendezvous::parse_endpoint(text)) {
    require(endpoint->port != 0, "an endpoint has a port");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_message(bytes);
  rendezvous::FrameBuffer whole;
  whole.append(bytes);
  rendezvous::FrameBuffer in_pieces;
  std::string_view left = bytes;
  while (const std::optional<std::string> text = whole.next()) {
    require(text->size() <= rendezvous::kLongestFrame, "a frame has the size that is allowed at most");
    std::optional<std::string> same = in_pieces.next();
    while (!same && !left.empty()) {
      in_pieces.append(left.substr(0, 3));
      left.remove_prefix(std::min<std::size_t>(3, left.size()));
      same = in_pieces.next();
    }
    require(same == text, "a frame is the same in whatever pieces it comes");
    check_message(*text);
  }
  require(whole.size() <= size, "no more is kept than came");
  return 0;
}
