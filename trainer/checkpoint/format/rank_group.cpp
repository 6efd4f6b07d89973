#include "trainer/checkpoint/format/rank_group.h"

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::format {
namespace {

std::vector<std::byte> to_bytes(const Result<void>& outcome) {
  const std::string text = serialise(outcome);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<void> from_bytes(const std::vector<std::byte>& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return parse_outcome(text).value_or(
      fail("checkpoint", "", "a rank sent an invalid outcome", "reporting this", ErrorKind::Internal));
}

}  // namespace

Result<void> agree(RankGroup& group, const Result<void>& mine) {
  if (group.size() == 1) {
    return mine;
  }
  ASSIGN_OR_RETURN(const auto outcomes, group.gather(to_bytes(mine)));
  std::vector<std::byte> first_failure;
  for (const std::vector<std::byte>& outcome : outcomes) {
    if (!outcome.empty()) {
      first_failure = outcome;
      break;
    }
  }
  RETURN_IF_ERROR(group.broadcast(first_failure));
  return from_bytes(first_failure);
}

}  // namespace rollcall::checkpoint::format
