#include "trainer/precision/autocast.h"

#include <ATen/autocast_mode.h>
#include <initializer_list>
#include <utility>

namespace rollcall::precision {
namespace {

void train_small_network(ComputeType type, const device::Device& device) {
  constexpr std::int64_t kChannels = 16;
  torch::nn::Conv2d stem(torch::nn::Conv2dOptions(3, kChannels, 7).stride(2).padding(3).bias(false));
  torch::nn::Conv2d narrow(torch::nn::Conv2dOptions(kChannels, kChannels, 1).bias(false));
  torch::nn::BatchNorm2d norm(kChannels);
  torch::nn::Linear head(kChannels, 4);
  for (torch::nn::Module* const module : std::initializer_list<torch::nn::Module*>{&*stem, &*narrow, &*norm, &*head}) {
    device.place(*module);
  }
  const Autocast autocast(type, device.type());
  const at::Tensor images = torch::ones({2, 3, 16, 16}, device.options()).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor features = torch::max_pool2d(norm(stem(images)).relu_(), 3, 2, 1);
  features = torch::adaptive_avg_pool2d(narrow(features) + features, {1, 1}).flatten(1);
  torch::cross_entropy_loss(head(features), torch::zeros({2}, device.options().dtype(at::kLong))).backward();
}

/// Restores the default generator, from which weights are drawn: its state decides a run's first weights.
class KeptGenerator {
 public:
  explicit KeptGenerator(at::Generator generator) : generator_(std::move(generator)), state_(generator_.get_state()) {}
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;
  ~KeptGenerator() { generator_.set_state(state_); }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

ComputeType compute_type(const std::string& precision) {
  if (precision == "bf16") {
    return at::kBFloat16;
  }
  return precision == "fp16" ? ComputeType(at::kHalf) : std::nullopt;
}

Autocast::Autocast(ComputeType type, at::DeviceType device) : device_(device), active_(type.has_value()) {
  if (!active_) {
    return;
  }
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  cached_ = at::autocast::is_autocast_cache_enabled();
  type_before_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *type);
  at::autocast::set_autocast_cache_enabled(false);
}

Autocast::~Autocast() {
  if (active_) {
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, type_before_);
    at::autocast::set_autocast_cache_enabled(cached_);
  }
}

Result<void> check_operators(ComputeType type, const device::Device& device) {
  if (!type) {
    return {};
  }
  const KeptGenerator kept(device::Device().generator());  // modules are made on the CPU
  const KeptGenerator kept_there(device.generator());
  try {
    train_small_network(type, device);
    return {};
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    const bool half = *type == at::kHalf;
    Error refused = fail("--precision", half ? "fp16" : "bf16",
                         "this machine cannot train with it: " + what.substr(0, what.find('\n')),
                         half ? "--precision=bf16 or --precision=fp32" : "--precision=fp32");
    refused.of_this_node = true;
    return refused;
  }
}

}  // namespace rollcall::precision
