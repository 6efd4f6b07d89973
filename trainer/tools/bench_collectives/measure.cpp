#include "trainer/tools/bench_collectives/measure.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/libtorch_version.h"
#include "trainer/torch.h"

namespace rollcall::bench_collectives {
namespace {

struct Named {
  std::string_view name;
  Operation operation;
};

constexpr std::array kOperations{Named{"all_reduce", Operation::AllReduce},
                                 Named{"reduce_scatter", Operation::ReduceScatter},
                                 Named{"all_gather", Operation::AllGather}, Named{"broadcast", Operation::Broadcast},
                                 Named{"all_to_all", Operation::AllToAll}};

/// The buffers of one operation, and their content before and after. Element i of rank r is (r + 1)(i mod 5 + 1).
class Buffers {
 public:
  Buffers(const process_group::Group& group, const at::TensorOptions& tensors, Operation operation, std::int64_t bytes)
      : group_(group),
        operation_(operation),
        rank_(process_group::rank_of(group)),
        size_(process_group::world_size_of(group)) {
    const std::int64_t part = std::max<std::int64_t>(1, bytes / 4 / size_);
    const bool whole_input = operation == Operation::ReduceScatter || operation == Operation::AllToAll;
    const bool whole_output = operation == Operation::AllGather || operation == Operation::AllToAll;
    const bool in_place = operation == Operation::AllReduce || operation == Operation::Broadcast;
    const std::int64_t all = in_place ? std::max<std::int64_t>(1, bytes / 4) : part * size_;
    input_ = torch::empty({whole_input || in_place ? all : part}, tensors);
    output_ = in_place ? input_ : torch::empty({whole_output ? all : part}, tensors);
    bytes_ = all * 4;
    pattern_ = torch::arange(all, tensors).remainder(5).add(1).to(torch::kFloat32);
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  void fill() { input_.copy_(pattern_.narrow(0, 0, input_.numel()) * static_cast<double>(rank_ + 1)); }

  void run() {
    std::vector<at::Tensor> tensors{input_};
    std::vector<std::int64_t> even, also_even;
    switch (operation_) {
      case Operation::AllReduce:
        group_->allreduce(tensors, process_group::awaited<c10d::AllreduceOptions>())->wait();
        break;
      case Operation::Broadcast:
        group_->broadcast(tensors, process_group::awaited<c10d::BroadcastOptions>())->wait();
        break;
      case Operation::ReduceScatter:
        group_->reduce_scatter_single(output_, input_, process_group::awaited<c10d::ReduceScatterOptions>())->wait();
        break;
      case Operation::AllGather:
        group_->all_gather_single(output_, input_, process_group::awaited<c10d::AllgatherOptions>())->wait();
        break;
      case Operation::AllToAll:
        group_->all_to_all_single(output_, input_, even, also_even, process_group::awaited<c10d::AllToAllOptions>())
            ->wait();
        break;
    }
  }

  [[nodiscard]] bool correct() const { return torch::equal(output_, expected()); }

 private:
  [[nodiscard]] at::Tensor expected() const {
    const std::int64_t sum_of_ranks = size_ * (size_ + 1) / 2;
    const auto sum = static_cast<double>(sum_of_ranks);
    const std::int64_t part = output_.numel() / size_;
    switch (operation_) {
      case Operation::AllReduce:
        return pattern_ * sum;
      case Operation::Broadcast:
        return pattern_;
      case Operation::ReduceScatter:
        return pattern_.narrow(0, rank_ * output_.numel(), output_.numel()) * sum;
      default:
        break;
    }
    std::vector<at::Tensor> parts;
    for (std::int64_t other = 0; other < size_; ++other) {
      const std::int64_t from = operation_ == Operation::AllGather ? 0 : rank_ * part;
      parts.push_back(pattern_.narrow(0, from, part) * static_cast<double>(other + 1));
    }
    return torch::cat(parts);
  }

  process_group::Group group_;
  Operation operation_;
  std::int64_t rank_;
  std::int64_t size_;
  std::int64_t bytes_ = 0;
  at::Tensor input_, output_, pattern_;
};

/// Waits until the device has finished: a backend's waits return earlier.
void finish(c10::Device device) {
  if (!device.is_cpu()) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.synchronizeStream(guard.getStream(device));
  }
}

/// Returns this rank's time in seconds, from a moment when all ranks were ready.
double time_once(const Candidate& candidate, Buffers& buffers) {
  buffers.fill();
  finish(candidate.tensors.device());
  candidate.group->barrier(process_group::awaited<c10d::BarrierOptions>())->wait();
  const auto begin = std::chrono::steady_clock::now();
  buffers.run();
  finish(candidate.tensors.device());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Returns the maximum over all ranks, element by element.
std::vector<double> slowest(const Candidate& candidate, const std::vector<double>& mine) {
  std::vector<at::Tensor> tensors{torch::tensor(mine, torch::kFloat64).to(candidate.tensors.device())};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  candidate.group->allreduce(tensors, options)->wait();
  const at::Tensor here = tensors[0].to(at::kCPU);
  const double* values = here.const_data_ptr<double>();
  return {values, values + mine.size()};
}

Measurement summarise(const Candidate& candidate, const std::string& name, Operation operation, const Buffers& buffers,
                      const std::vector<double>& mine) {
  Measurement result{.operation = name, .backend = candidate.backend, .bytes = buffers.bytes()};
  // A rank with a wrong result counts 1, so the maximum over all ranks shows it.
  const bool wrong = slowest(candidate, {buffers.correct() ? 0.0 : 1.0})[0] > 0;
  result.correct = !wrong;
  result.seconds = median(slowest(candidate, mine));
  result.algorithm = static_cast<double>(result.bytes) / result.seconds;
  result.bus = result.algorithm * bus_factor(operation, process_group::world_size_of(candidate.group));
  return result;
}

}  // namespace

std::optional<Operation> find_operation(std::string_view name) {
  for (const Named& known : kOperations) {
    if (known.name == name) {
      return known.operation;
    }
  }
  return std::nullopt;
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kOperations));
  for (const Named& known : kOperations) {
    names.emplace_back(known.name);
  }
  return names;
}

double bus_factor(Operation operation, std::uint32_t world_size) {
  const double share = static_cast<double>(world_size - 1) / world_size;
  switch (operation) {
    case Operation::AllReduce:
      return 2 * share;
    case Operation::Broadcast:
      return 1;
    default:
      return share;
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<std::vector<Measurement>> measure(const std::vector<Candidate>& candidates, const std::string& operation,
                                         std::int64_t bytes, const Repetitions& repetitions) {
  std::vector<Measurement> results;
  const Operation kind = find_operation(operation).value();
  const Result<void> done = process_group::guard_collective(candidates.at(0).group, [&] {
    std::vector<Buffers> buffers;
    buffers.reserve(candidates.size());
    for (const Candidate& candidate : candidates) {
      buffers.emplace_back(candidate.group, candidate.tensors, kind, bytes);
    }
    std::vector<std::vector<double>> seconds(candidates.size());
    for (int turn = -repetitions.warm_up; turn < repetitions.iterations; ++turn) {
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        const double once = time_once(candidates[i], buffers[i]);
        if (turn >= 0) {
          seconds[i].push_back(once);
        }
      }
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      results.push_back(summarise(candidates[i], operation, kind, buffers[i], seconds[i]));
    }
  });
  return done ? Result<std::vector<Measurement>>(std::move(results)) : done.error();
}

}  // namespace rollcall::bench_collectives
