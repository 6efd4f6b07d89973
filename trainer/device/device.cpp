#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/job/gpu_request.h"
#include "trainer/device/device.h"

namespace rollcall::device {
namespace {

constexpr const char* kGpus = "cuda";

Result<Device> device_of(const Plugin& plugin, const DeviceRequest& request) {
  ASSIGN_OR_RETURN(const std::uint32_t visible, plugin.count());
  ASSIGN_OR_RETURN(const std::uint32_t index, device_index(request, visible));
  Result<Facts> facts = plugin.open(index);
  return facts ? Result<Device>(Device(plugin, index, *std::move(facts))) : facts.error();
}

}  // namespace

Result<std::uint32_t> device_index(const DeviceRequest& request, std::uint32_t visible) {
  if (visible == 1) {  // a task's own, or one for all: then another rank has the same UUID
    return 0;
  }
  if (request.local_rank < visible && request.local_world_size <= visible) {
    return request.local_rank;
  }
  return fail("--device", request.asked,
              visible == 0 ? "no device is visible to this task"
                           : fmt::format("{} on this node, and each sees {}", counted(request.local_world_size, "rank"),
                                         counted(visible, "device")),
              visible == 0 ? "asking Slurm for GPUs (--gpus-per-node), or --device=cpu"
                           : "asking for as many GPUs as tasks on a node, all visible to each task: " +
                                 job::gpus_for_every_task(request.local_world_size),
              ErrorKind::Unavailable);
}

bool is_cpu(const DeviceRequest& request) {
  return request.asked == "cpu" || (request.asked == "auto" && request.gpus == 0);
}

void Device::place(torch::nn::Module& module) const {
  const torch::NoGradGuard no_grad;
  const auto move = [this](const at::Tensor& tensor) {
    if (tensor.device() != device_) {
      // Does what Module::to() does (Variable::set_data), which does not accept devices of plugins.
      tensor.unsafeGetTensorImpl()->shallow_copy_from(tensor.detach().to(device_).getIntrusivePtr());
    }
  };
  std::ranges::for_each(module.parameters(), move);
  std::ranges::for_each(module.buffers(), move);
}

void Device::use(const Arithmetic& arithmetic) {
  own_kernels_ = arithmetic.own_kernels;
  if (plugin_ == nullptr) {
    return;
  }
  at::Context& context = at::globalContext();
  const auto precision = arithmetic.tf32 ? at::Float32Precision::TF32 : at::Float32Precision::IEEE;
  context.setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, precision);
  context.setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV, precision);
  context.setBenchmarkCuDNN(!arithmetic.deterministic);
  context.setDeterministicCuDNN(arithmetic.deterministic);
  // An operator without a deterministic version warns and continues.
  context.setDeterministicAlgorithms(arithmetic.deterministic, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);  // which would cost time for each empty tensor
}

Result<void> Device::make_current() const {
  if (plugin_ == nullptr) {
    return {};
  }
  const Result<Facts> opened = plugin_->open(static_cast<std::uint32_t>(device_.index()));
  return opened ? Result<void>() : opened.error();
}

Result<Device> choose_device(const DeviceRequest& request) {
  if (is_cpu(request)) {
    return Device();
  }
  const bool automatic = request.asked == "auto";
  const Result<const Plugin*> plugin = open_plugin(automatic ? kGpus : request.asked);
  if (plugin) {
    return device_of(**plugin, request);
  }
  const bool not_built = plugin.error().kind == ErrorKind::Usage;  // see idle_gpus_warning()
  return automatic && not_built ? Result<Device>(Device()) : plugin.error();
}

std::string idle_gpus_warning(const DeviceRequest& request, const Device& device) {
  if (request.asked != "auto" || request.gpus == 0 || device.plugin() != nullptr) {
    return {};
  }
  return fmt::format(
      "--device: auto: computes on CPUs although {} GPU{} visible, since this rollcall was built without CUDA; try "
      "using a build with CUDA (docs/user/gpu.md), or --device=cpu if that is intended",
      request.gpus, request.gpus == 1 ? " is" : "s are");
}

std::optional<MemoryPeak> memory_peak(const Device& device) {
  if (device.plugin() == nullptr) {
    return std::nullopt;
  }
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator == nullptr || !allocator->initialized()) {
    return std::nullopt;
  }
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator->getDeviceStats(device.device().index());
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return MemoryPeak{.allocated = static_cast<std::uint64_t>(stats.allocated_bytes.at(kAll).peak),
                    .reserved = static_cast<std::uint64_t>(stats.reserved_bytes.at(kAll).peak)};
}

std::string missing_kernels_warning(const Device& device) {
  if (device.type() != at::kCUDA || !device.lacks_kernels()) {
    return {};
  }
  constexpr const char* kInstead = "so LibTorch's operators are used, with more passes over memory; try";
  if (const std::string& reason = device.facts().without_kernels; !reason.empty()) {
    return fmt::format("--own-kernels: on: {}, {} --own-kernels=off if that is intended", reason, kInstead);
  }
  return fmt::format(
      "--own-kernels: on: rollcall_cuda.so was built without nvcc and has none, {} building where CMake finds nvcc "
      "(docs/user/gpu.md), or --own-kernels=off if that is intended",
      kInstead);
}

}  // namespace rollcall::device
