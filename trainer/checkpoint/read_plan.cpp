#include "trainer/checkpoint/read_plan.h"

#include <ATen/core/CachingHostAllocator.h>

#include <optional>

#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/state_parts.h"
#include "trainer/streams.h"

namespace rollcall::checkpoint {

at::Tensor ReadPlan::buffer(const at::Tensor& target, const format::ManifestEntry& entry, std::int64_t first_row) {
  const auto dtype = format::dtype_from_name(entry.type);
  TORCH_CHECK(dtype, entry.name, " has elements of type ", entry.type, ", which this version does not support");
  at::Tensor memory =
      torch::empty(target.sizes(), at::TensorOptions(scalar_type(*dtype)).pinned_memory(!target.is_cpu()));
  if (memory.numel() > 0) {
    const std::uint64_t rows = entry.shape.empty() ? 1 : static_cast<std::uint64_t>(entry.shape[0]);
    requests_.push_back({&entry,
                         static_cast<std::uint64_t>(first_row) * (entry.bytes / rows),
                         {static_cast<std::byte*>(memory.mutable_data_ptr()), memory.nbytes()}});
  }
  return memory;
}

void ReadPlan::fill(const at::Tensor& target, const format::ManifestEntry& entry, std::int64_t first_row) {
  copies_.emplace_back(target, buffer(target, entry, first_row));
}

at::Tensor ReadPlan::make(const at::Tensor& like, const format::ManifestEntry& entry, std::int64_t first_row) {
  at::Tensor memory = buffer(like, entry, first_row);
  if (like.device().is_cpu() && like.is_contiguous()) {
    return memory;
  }
  at::Tensor made = torch::empty_like(like, like.options().dtype(memory.scalar_type()).requires_grad(false));
  copies_.emplace_back(made, memory);
  return made;
}

Result<void> ReadPlan::read(const format::CheckpointSource& source, format::VerifyLevel level) const {
  return source.read(requests_, level, format::default_threads());
}

void ReadPlan::apply() {
  const torch::NoGradGuard no_grad;
  std::optional<c10::Device> device;
  for (const auto& [into, from] : copies_) {
    into.copy_(from, /*non_blocking=*/!into.is_cpu());
    device = into.is_cpu() ? device : into.device();
  }
  if (device) {
    current_stream(*device).synchronize();
  }
  copies_.clear();
  // Otherwise LibTorch would keep all page-locked memory of this load for the whole run.
  if (device && device->is_cuda()) {
    at::getHostAllocator(device->type())->empty_cache();
  }
}

}  // namespace rollcall::checkpoint
