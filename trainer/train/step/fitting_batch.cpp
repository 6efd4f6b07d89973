#include "trainer/train/step/fitting_batch.h"

#include <algorithm>
#include <vector>

#include "trainer/device/memory_use.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/torch.h"
#include "trainer/train/step/totals.h"

namespace rollcall::train {
namespace {

constexpr std::int64_t kFewest = 2;  // BatchNorm needs more than one value a channel where images shrink to a pixel

/// Passes of one rank alone, each beside as much memory as the optimizer will take.
class Passes {
 public:
  Passes(Training& training, const config::TrainConfig& config, const World& world, at::IntArrayRef shape)
      : training_(training), config_(config), world_(world), shape_(shape.begin(), shape.end()) {
    if (training.optimizer->state().empty()) {  // before its first step: at most two moments of each parameter
      std::int64_t bytes = 0;
      for (const at::Tensor& parameter : training.model->parameters()) {
        bytes += 2 * static_cast<std::int64_t>(parameter.nbytes());
      }
      moments_ = torch::empty({bytes}, world.device.options().dtype(at::kByte));
    }
  }

  /// Nothing: it does not fit. Throws what LibTorch throws but for that.
  [[nodiscard]] std::optional<MeasuredPass> run(std::int64_t images) {
    device::begin_peak(world_.device);
    try {
      pass(images);
    } catch (const c10::OutOfMemoryError&) {
      return std::nullopt;
    }
    return MeasuredPass{images, device::memory_use(world_.device)->peak_allocated};
  }

 private:
  /// Gradients are returned rather than added up: nobody's hooks see them, so that no other rank need take part.
  void pass(std::int64_t images) {
    shape_[0] = images;
    const at::Tensor input = torch::zeros(shape_, world_.device.options());
    const at::Tensor labels = torch::zeros({images}, world_.device.options().dtype(at::kLong));
    const at::Tensor outputs = outputs_of(training_, config_, world_, input);
    const at::Tensor loss = losses_of(outputs, labels, config_.optim.label_smoothing).mean();
    (void)torch::autograd::grad({loss}, training_.model->parameters(), {}, /*retain_graph=*/false,
                                /*create_graph=*/false, /*allow_unused=*/true);
  }

  Training& training_;
  const config::TrainConfig& config_;
  const World& world_;
  std::vector<std::int64_t> shape_;
  at::Tensor moments_;
};

/// The largest batch below `images` that has fitted; nothing: none did, or it cannot be said.
std::optional<std::int64_t> find_fitting(Passes& passes, std::int64_t images, std::uint64_t limit) {
  std::optional<MeasuredPass> small;
  std::optional<MeasuredPass> large;
  for (std::int64_t few = std::max(images / 8, kFewest); !large && few >= kFewest; few /= 2) {
    small = passes.run(few);
    large = small ? passes.run(2 * few) : std::nullopt;
  }
  if (!large) {
    return small ? std::optional(small->images) : std::nullopt;
  }
  std::int64_t wanted = std::min(images_within(limit, *small, *large).value_or(0), images - 1);
  for (int tries = 0; tries < 4 && wanted >= kFewest; ++tries) {
    constexpr std::int64_t kRound = 8;
    wanted -= wanted > 4 * kRound ? wanted % kRound : 0;
    if (passes.run(wanted)) {
      return wanted;
    }
    wanted = wanted * 7 / 8;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> images_within(std::uint64_t limit, const MeasuredPass& small, const MeasuredPass& large) {
  if (large.images <= small.images || large.peak <= small.peak) {
    return std::nullopt;
  }
  const double of_image =
      static_cast<double>(large.peak - small.peak) / static_cast<double>(large.images - small.images);
  const double without = static_cast<double>(small.peak) - of_image * static_cast<double>(small.images);
  return static_cast<std::int64_t>(std::max((static_cast<double>(limit) - without) / of_image, 0.0));
}

Error with_fitting_batch(Error error, Training& training, const config::TrainConfig& config, const World& world,
                         at::IntArrayRef shape) {
  const auto limit = device::memory_within_reach(world.device);
  if (error.kind != ErrorKind::DeviceOutOfMemory || !limit || shape.size() != 4 || training.replica->is_sharded() ||
      (config.parallel.sync_batch_norms && world.world_size > 1)) {
    return error;
  }
  constexpr double kUsable = 0.95;               // of a device's memory: batches leave gaps
  at::globalContext().setBenchmarkCuDNN(false);  // looking for the fastest algorithm takes memory of its own
  std::optional<std::int64_t> fits;
  (void)process_group::catch_exception([&] {
    Passes passes(training, config, world, shape);
    fits = find_fitting(passes, shape[0], static_cast<std::uint64_t>(kUsable * static_cast<double>(*limit)));
  });
  return fits ? process_group::out_of_device_memory(error.reason, fits) : error;
}

}  // namespace rollcall::train
