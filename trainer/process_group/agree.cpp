#include "trainer/process_group/agree.h"

#include <torch/torch.h>
#include <string>
#include <vector>

#include "runtime/base/text.h"

namespace rollcall::process_group {
namespace {

// An Error as text: its five fields, each followed by a NUL, which no message contains.
std::vector<std::uint8_t> serialise(const Result<void>& outcome) {
  if (outcome) {
    return {};
  }
  const Error& error = outcome.error();
  std::vector<std::uint8_t> bytes;
  for (const std::string& field :
       {std::to_string(to_int(error.exit_code)), error.setting, error.value, error.reason, error.action}) {
    bytes.insert(bytes.end(), field.begin(), field.end());
    bytes.push_back(0);
  }
  return bytes;
}

Error deserialise(const std::vector<std::uint8_t>& bytes) {
  const std::vector<std::string> fields = split(std::string(bytes.begin(), bytes.end()), '\0');
  const int code = parse_integer<int>(fields.at(0)).value_or(to_int(ExitCode::Internal));
  return fail(fields.at(1), fields.at(2), fields.at(3), fields.at(4), static_cast<ExitCode>(code));
}

Agreement first_failure(const std::vector<std::vector<std::uint8_t>>& outcomes, std::uint32_t my_rank) {
  Agreement agreement;
  for (std::uint32_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].empty()) {
      continue;
    }
    if (agreement.failed_ranks == 0) {
      agreement.failure = deserialise(outcomes[rank]);
      agreement.first_failed_rank = rank;
      agreement.prints = rank == my_rank;
    }
    agreement.failed_ranks += 1;
  }
  return agreement;
}

}  // namespace

Result<Agreement> agree(const Group& group, const Result<void>& mine) {
  at::Tensor failures = torch::tensor({mine ? std::int64_t{0} : std::int64_t{1}});
  if (const Result<void> counted = all_reduce_sum(group, failures); !counted) {
    return counted.error();
  }
  if (failures.item<std::int64_t>() == 0) {
    return Agreement{};
  }
  const Result<std::vector<std::vector<std::uint8_t>>> outcomes = all_gather_bytes(group, serialise(mine));
  if (!outcomes) {
    return outcomes.error();
  }
  return first_failure(*outcomes, rank_of(group));
}

Result<void> agree_or_fail(const Group& group, const Result<void>& mine) {
  const Result<Agreement> agreement = agree(group, mine);
  if (!agreement) {
    return agreement.error();
  }
  return agreement->failure ? Result<void>(*agreement->failure) : Result<void>();
}

}  // namespace rollcall::process_group
