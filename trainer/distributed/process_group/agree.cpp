#include "trainer/distributed/process_group/agree.h"

#include <torch/torch.h>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::process_group {
namespace {

std::vector<std::uint8_t> to_bytes(const Result<void>& outcome) {
  const std::string text = serialise(outcome);
  return {text.begin(), text.end()};
}

Error failure_of(const std::vector<std::uint8_t>& bytes) {
  const std::optional<Result<void>> outcome = parse_outcome(std::string(bytes.begin(), bytes.end()));
  return outcome && !*outcome ? outcome->error()
                              : fail("process group", "", "a rank sent something else than its outcome",
                                     "reporting this", ExitCode::Internal);
}

Agreement first_failure(const std::vector<std::vector<std::uint8_t>>& outcomes, std::uint32_t my_rank) {
  Agreement agreement;
  for (std::uint32_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].empty()) {
      continue;
    }
    if (agreement.failed_ranks == 0) {
      agreement.failure = failure_of(outcomes[rank]);
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
  const Result<std::vector<std::vector<std::uint8_t>>> outcomes = all_gather_bytes(group, to_bytes(mine));
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
