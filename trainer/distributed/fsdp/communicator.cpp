#include "trainer/distributed/fsdp/communicator.h"

#include <chrono>
#include <utility>
#include <vector>

#include "trainer/distributed/fsdp/unsharded_memory.h"
#include "trainer/libtorch_version.h"

namespace rollcall::parallel::fsdp {
namespace {

/// Returns the tensor's bytes: backends do not support every element type, but all support bytes.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

/// Returns tensors with the same values for a backend. A device's Work keeps its results until the watchdog has seen
/// its end, a tenth of a second later: the whole parameters of several blocks. So it gets tensors that own no memory,
/// and Pending owns the memory.
at::Tensor lent(const at::Tensor& tensor) {
  if (tensor.is_cpu()) {
    return tensor;
  }
  return at::for_blob(tensor.mutable_data_ptr(), tensor.sizes())
      .options(tensor.options())
      .target_device(tensor.device())
      .make_tensor();
}

void wait_for(c10d::Work& work, Counters& counters) {
  const auto began = std::chrono::steady_clock::now();
  work.wait();
  counters.waited_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::int64_t bytes(const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); }

}  // namespace

void Pending::wait() {
  for (const auto& work : std::exchange(works_, {})) {
    wait_for(*work, *counters_);
    if (*around_) {
      (*around_)();
    }
  }
  tensors_.clear();
}

void Communicator::around_collective() const {
  if (options_.around_collective) {
    options_.around_collective();
  }
}

Pending Communicator::all_gather(const process_group::Group& group, std::vector<at::Tensor> gathered,
                                 std::vector<at::Tensor> mine) {
  counters.gathers += 1;
  Pending pending(options_.around_collective, counters);
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    if (!group) {
      copy_pieces(gathered[i], mine[i], {{0, 0, bytes(mine[i])}});
      continue;
    }
    counters.gathered_bytes += bytes(gathered[i]) - bytes(mine[i]);
    around_collective();
    at::Tensor output = lent(as_bytes(gathered[i]));
    at::Tensor input = lent(as_bytes(mine[i]));
    pending.add(group->all_gather_single(output, input), {gathered[i], mine[i]});
  }
  return pending;
}

template <typename Issue>
Pending Communicator::reduce(const std::vector<at::Tensor>& received, const std::vector<at::Tensor>& parts,
                             const Issue& issue) {
  counters.reductions += 1;
  Pending pending(options_.around_collective, counters);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!mesh_.shard) {
      copy_pieces(received[i], parts[i], {{0, 0, bytes(parts[i])}});
      continue;
    }
    counters.scattered_bytes += bytes(parts[i]) - bytes(parts[i]) / size();
    around_collective();
    pending.add(issue(received[i], parts[i]), {received[i], parts[i]});
  }
  return pending;
}

Pending Communicator::reduce_scatter(const std::vector<at::Tensor>& sums, const std::vector<at::Tensor>& parts) {
  return reduce(sums, parts, [this](const at::Tensor& sum, const at::Tensor& part) {
    at::Tensor output = lent(sum.view({-1}));
    at::Tensor input = lent(part.view({-1}));
    return mesh_.shard->reduce_scatter_single(output, input);
  });
}

Pending Communicator::all_to_all(const std::vector<at::Tensor>& received, const std::vector<at::Tensor>& parts) {
  return reduce(received, parts, [this](const at::Tensor& received_part, const at::Tensor& part) {
    at::Tensor output = lent(as_bytes(received_part));
    at::Tensor input = lent(as_bytes(part));
    std::vector<std::int64_t> equal_parts;
    std::vector<std::int64_t> also_equal;
    return mesh_.shard->all_to_all_single(output, input, equal_parts, also_equal);
  });
}

void Communicator::add_up(const at::Tensor& sum, const at::Tensor& received) {
  const at::Tensor rows = received.to(sum.scalar_type());
  if (rows.size(0) == 1) {
    sum.copy_(rows[0]);
  }
  for (std::int64_t step = 1; step < rows.size(0); step *= 2) {
    const bool last = 2 * step >= rows.size(0);
    for (std::int64_t i = 0; i + step < rows.size(0); i += 2 * step) {
      at::Tensor to = last ? sum : rows[i];
      at::add_out(to, rows[i], rows[i + step]);
    }
  }
}

void Communicator::add_replicas(at::Tensor& sum) {
  if (!mesh_.replicate) {
    return;
  }
  counters.replicated_bytes += bytes(sum);
  around_collective();
  std::vector<at::Tensor> tensors{lent(sum)};
  wait_for(*mesh_.replicate->allreduce(tensors), counters);
  around_collective();
}

}  // namespace rollcall::parallel::fsdp
