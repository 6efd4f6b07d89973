#include "trainer/parallel/fsdp/communicator.h"

#include <chrono>
#include <vector>

#include "trainer/parallel/fsdp/device_memory.h"

namespace rollcall::parallel::fsdp {
namespace {

/// Back ends do not know every element type, but they all move bytes.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

void wait_for(c10d::Work& work, Counters& counters) {
  const auto began = std::chrono::steady_clock::now();
  work.wait();
  counters.waited_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::int64_t bytes(const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); }

}  // namespace

void Pending::wait() {
  if (work_) {
    wait_for(*work_, *counters_);
    work_.reset();
    if (*around_) {
      (*around_)();
    }
  }
}

void Communicator::around_collective() const {
  if (options_.around_collective) {
    options_.around_collective();
  }
}

Pending Communicator::all_gather(const process_group::Group& group, at::Tensor& whole, at::Tensor& mine) {
  counters.gathers += 1;
  if (!group) {
    copy_pieces(whole, mine, {{0, 0, bytes(mine)}});
    return {};
  }
  counters.gathered_bytes += bytes(whole) - bytes(mine);
  around_collective();
  at::Tensor output = as_bytes(whole);
  at::Tensor input = as_bytes(mine);
  return {group->all_gather_single(output, input), options_.around_collective, counters};
}

Pending Communicator::exchange(at::Tensor& received, at::Tensor& parts) {
  counters.reductions += 1;
  if (!mesh_.shard) {
    copy_pieces(received, parts, {{0, 0, bytes(parts)}});
    return {};
  }
  counters.scattered_bytes += bytes(parts) - bytes(parts) / size();
  around_collective();
  at::Tensor output = as_bytes(received);
  at::Tensor input = as_bytes(parts);
  std::vector<std::int64_t> equal_parts;
  std::vector<std::int64_t> also_equal;
  return {mesh_.shard->all_to_all_single(output, input, equal_parts, also_equal), options_.around_collective, counters};
}

at::Tensor Communicator::add_up(const at::Tensor& received, at::ScalarType type) {
  at::Tensor rows = received.to(type);
  for (std::int64_t step = 1; step < rows.size(0); step *= 2) {
    for (std::int64_t i = 0; i + step < rows.size(0); i += 2 * step) {
      rows[i].add_(rows[i + step]);
    }
  }
  return rows[0];
}

void Communicator::add_replicas(at::Tensor& sum) {
  if (!mesh_.replicate) {
    return;
  }
  counters.replicated_bytes += bytes(sum);
  around_collective();
  std::vector<at::Tensor> tensors{sum};
  wait_for(*mesh_.replicate->allreduce(tensors), counters);
  around_collective();
}

}  // namespace rollcall::parallel::fsdp
