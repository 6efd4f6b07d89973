#include "trainer/train/step/step_graph.h"

#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/streams.h"
#include "trainer/torch.h"

namespace rollcall::train {
namespace {

/// Returns why steps cannot be captured; empty: they can.
std::string obstacle(const config::TrainConfig& config, const JobContext& context, bool regroups) {
  const device::Plugin* const plugin = context.device.plugin();
  const parallel::ReplicaOptions& replica = config.parallel.replica;
  if (plugin == nullptr) {
    return "this training computes on CPUs, which cannot capture graphs";
  }
  if (plugin->capture == nullptr) {
    return "devices of this kind cannot capture graphs";
  }
  if (regroups || replica.exact.virtual_ranks > 0) {
    return "a graph cannot change with the ranks (--elastic)";
  }
  if (config.data.loading.growth.smallest > 0) {
    return "a graph cannot change with the size of images (--image-size-schedule)";
  }
  if (replica.sharding.cpu_offload) {
    return "with --cpu-offload the host also computes";
  }
  if (replica.data_parallel.find_unused_parameters) {
    return "--find-unused-parameters examines each step on the host";
  }
  return "";
}

/// Copies `tensor` to `place`, where the graph reads it.
void keep_in(at::Tensor& place, const at::Tensor& tensor) {
  if (!place.defined()) {
    place = at::empty_like(tensor);
  }
  place.copy_(tensor);
}

}  // namespace

Result<bool> captures_steps(const config::TrainConfig& config, const JobContext& context, bool regroups) {
  if (config.parallel.graphs != config::StepGraphs::On) {
    return false;
  }
  const std::string reason = obstacle(config, context, regroups);
  return reason.empty() ? Result<bool>(true) : fail("--cuda-graph", "on", reason, "--cuda-graph=auto");
}

StepGraph::StepGraph(const JobContext& context, std::size_t batches, bool mixes)
    : context_(context), mixes_(mixes), places_(batches) {}

void StepGraph::keep(std::size_t number, const data::Batch& batch) {
  const torch::NoGradGuard no_grad;
  data::Batch& place = places_.at(number);
  keep_in(place.images, batch.images);
  keep_in(place.labels, batch.labels);
  keep_in(place.counted, batch.counted);
  if (batch.kept.defined()) {
    keep_in(place.kept, batch.kept);
  }
  if (!mixes_) {
    return;
  }
  if (!place.label_weights.defined()) {
    place.label_weights = torch::empty({2}, context_.device.options());
  }
  keep_in(place.second_labels, batch.second_labels.defined() ? batch.second_labels : batch.labels);
  place.label_weights.select(0, 0).fill_(batch.label_weight);
  place.label_weights.select(0, 1).fill_(1 - batch.label_weight);
}

const at::Tensor& StepGraph::run(const at::Tensor& from_host, const Work& work) {
  RECORD_USER_SCOPE("phase: graph of the step");
  keep_in(from_host_, from_host);
  if (!replay_) {
    capture(work);
  }
  replay_();
  collectives_.replayed(context_.device.device(), std::chrono::duration<double>(longest_before_));
  return for_host_;
}

void StepGraph::capture(const Work& work) {
  current_stream(context_.device.device())
      .synchronize();  // so that an earlier failure does not appear as one of the capture
  try {
    replay_ = context_.device.plugin()->capture(
        [&] { collectives_.capture([&] { for_host_ = work(places_, from_host_); }); });
  } catch (const c10::OutOfMemoryError& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.msg(), " (--cuda-graph=off takes less memory)");
  } catch (const c10::DistError&) {  // a rank was lost meanwhile
    throw;
  } catch (const c10::Error& error) {
    if (const auto failure = process_group::device_error(error);
        failure && process_group::is_device_failure(*failure)) {
      throw;
    }
    TORCH_CHECK(false, "a step cannot be captured as a graph (try --cuda-graph=off): ", error.msg());
  }
}

}  // namespace rollcall::train
