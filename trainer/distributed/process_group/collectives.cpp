#include "trainer/distributed/process_group/collectives.h"

#include <algorithm>
#include <string>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/watchdog/device_connections.h"
#include "trainer/distributed/watchdog/watchdog.h"
#include "trainer/torch.h"

namespace rollcall::process_group {
namespace {

/// Returns the `mine` of every rank, by rank. It has the same shape on all ranks.
std::vector<at::Tensor> all_gather(const Group& group, const at::Tensor& mine) {
  std::vector<at::Tensor> all(world_size_of(group));
  std::generate(all.begin(), all.end(), [&] { return torch::empty_like(mine); });
  std::vector<std::vector<at::Tensor>> outputs{all};
  std::vector<at::Tensor> inputs{mine};
  group->allgather(outputs, inputs, awaited<c10d::AllgatherOptions>())->wait();
  return all;
}

std::vector<std::vector<std::uint8_t>> gather_padded(const Group& group, const std::vector<std::uint8_t>& mine) {
  const std::vector<at::Tensor> sizes = all_gather(group, torch::tensor({static_cast<std::int64_t>(mine.size())}));
  std::int64_t longest = 1;  // a tensor without elements is no input for a collective
  for (const at::Tensor& size : sizes) {
    longest = std::max(longest, size.item<std::int64_t>());
  }
  at::Tensor padded = torch::zeros({longest}, torch::kUInt8);
  std::copy(mine.begin(), mine.end(), padded.mutable_data_ptr<std::uint8_t>());
  const std::vector<at::Tensor> gathered = all_gather(group, padded);
  std::vector<std::vector<std::uint8_t>> all;
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    const auto* bytes = gathered[rank].const_data_ptr<std::uint8_t>();
    all.emplace_back(bytes, bytes + sizes[rank].item<std::int64_t>());
  }
  return all;
}

std::vector<std::uint8_t> to_bytes(const Result<void>& outcome) {
  const std::string text = serialise(outcome);
  return {text.begin(), text.end()};
}

Error failure_of(const std::vector<std::uint8_t>& bytes) {
  const std::optional<Result<void>> outcome = parse_outcome(std::string(bytes.begin(), bytes.end()));
  return outcome && !*outcome ? outcome->error()
                              : fail("process group", "", "a rank sent data that is not an outcome", "reporting this",
                                     ErrorKind::Internal);
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

std::uint32_t rank_of(const Group& group) { return group ? static_cast<std::uint32_t>(group->getRank()) : 0; }
std::uint32_t world_size_of(const Group& group) { return group ? static_cast<std::uint32_t>(group->getSize()) : 1; }

Result<void> guard_collective(const Group& group, const std::function<void()>& work) {
  return catch_exceptions(ReportingRank{rank_of(group), world_size_of(group)}, "process group",
                          "a collective failed because a peer was lost",
                          "looking for the cause in this output and in Slurm's", work);
}

std::optional<Error> device_failure(const Group& group) { return device_failure_of(group); }

bool devices_are_being_aborted() { return aborts_are_under_way(); }

Result<void> all_reduce_sum(const Group& group, at::Tensor& tensor) {
  if (!group) {
    return {};
  }
  return guard_collective(group, [&] {
    std::vector<at::Tensor> tensors{tensor};
    group->allreduce(tensors, awaited<c10d::AllreduceOptions>())->wait();
  });
}

Result<void> broadcast(const Group& group, at::Tensor& tensor, std::uint32_t root) {
  if (!group) {
    return {};
  }
  return guard_collective(group, [&] {
    auto options = awaited<c10d::BroadcastOptions>();
    options.rootRank = root;
    std::vector<at::Tensor> tensors{tensor};
    group->broadcast(tensors, options)->wait();
  });
}

Result<std::vector<std::vector<std::uint8_t>>> all_gather_bytes(const Group& group,
                                                                const std::vector<std::uint8_t>& mine) {
  if (!group) {
    return std::vector<std::vector<std::uint8_t>>{mine};
  }
  std::vector<std::vector<std::uint8_t>> all;
  RETURN_IF_ERROR(guard_collective(group, [&] { all = gather_padded(group, mine); }));
  return all;
}

Result<void> barrier(const Group& group) {
  at::Tensor nothing = torch::zeros({1}, torch::kInt64);
  return all_reduce_sum(group, nothing);
}

Result<Agreement> agree(const Group& group, const Result<void>& mine) {
  at::Tensor failures = torch::tensor({mine ? std::int64_t{0} : std::int64_t{1}});
  RETURN_IF_ERROR(all_reduce_sum(group, failures));
  if (failures.item<std::int64_t>() == 0) {
    return Agreement{};
  }
  ASSIGN_OR_RETURN(const auto outcomes, all_gather_bytes(group, to_bytes(mine)));
  return first_failure(outcomes, rank_of(group));
}

Result<void> agree_or_fail(const Group& group, const Result<void>& mine) {
  ASSIGN_OR_RETURN(const Agreement agreement, agree(group, mine));
  return agreement.failure ? Result<void>(*agreement.failure) : Result<void>();
}

}  // namespace rollcall::process_group
