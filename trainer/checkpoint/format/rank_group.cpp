#include "trainer/checkpoint/format/rank_group.h"

#include <nlohmann/json.hpp>

namespace rollcall::checkpoint::format {
namespace {

std::vector<std::byte> to_bytes(const Result<void>& outcome) {
  if (outcome) {
    return {};
  }
  const Error& error = outcome.error();
  const nlohmann::json fields = {error.setting, error.value, error.reason, error.action, to_int(error.exit_code)};
  const std::string text = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<void> from_bytes(const std::vector<std::byte>& bytes) {
  if (bytes.empty()) {
    return {};
  }
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  const auto fields = nlohmann::json::parse(text, text + bytes.size(), nullptr, /*allow_exceptions=*/false);
  if (!fields.is_array() || fields.size() != 5 || !fields[4].is_number_integer()) {
    return fail("checkpoint", "", "a rank sent something else than its outcome", "reporting this", ExitCode::Internal);
  }
  return fail(fields[0], fields[1], fields[2], fields[3], static_cast<ExitCode>(fields[4].get<int>()));
}

}  // namespace

Result<void> agree(RankGroup& group, const Result<void>& mine) {
  if (group.size() == 1) {
    return mine;
  }
  const auto outcomes = group.gather(to_bytes(mine));
  if (!outcomes) {
    return outcomes.error();
  }
  std::vector<std::byte> first_failure;
  for (const std::vector<std::byte>& outcome : *outcomes) {
    if (!outcome.empty()) {
      first_failure = outcome;
      break;
    }
  }
  if (Result<void> told = group.broadcast(first_failure); !told) {
    return told;
  }
  return from_bytes(first_failure);
}

}  // namespace rollcall::checkpoint::format
