// Any bytes as requests to the trainer's store and as its answers, and any requests to its table: ranks send them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/store/messages.h"
#include "runtime/store/table.h"
#include "tests/fuzz/require.h"

namespace {

using namespace rollcall::store;
using rollcall::fuzz::require;

constexpr std::size_t kMost = std::size_t{1} << 14;

/// The first byte is the size of a message, and so on; each is asked by one of four ranks.
void check_table(std::string_view bytes) {
  Table table(kMost);
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(static_cast<unsigned char>(bytes[0]), bytes.size() - 1);
    std::optional<Numbered<Request>> request = parse_request(bytes.substr(1, size));
    bytes.remove_prefix(1 + size);
    if (!request) {
      continue;
    }
    const Ticket ticket{static_cast<std::uint32_t>(request->number % 4), request->number / 4};
    const bool waits = request->content.operation == Operation::Get || request->content.operation == Operation::Wait;
    const bool silent = request->content.operation == Operation::Cancel || request->content.quiet;
    const Answers answers = table.take(ticket, std::move(request->content));
    require(waits || silent || (!answers.empty() && answers[0].first == ticket), "who asks is answered first");
    require(table.bytes() <= kMost, "a table holds no more than it may");
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    table.forget_rank(rank);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto request = parse_request(bytes)) {
    require(encode(request->number, request->content) == bytes, "a request is written as it was read");
    require(encoded_size(request->content) == size, "its size is known before");
  }
  if (const auto answer = parse_answer(bytes)) {
    require(encode(answer->number, answer->content) == bytes, "an answer is written as it was read");
  }
  check_table(bytes);
  return 0;
}
