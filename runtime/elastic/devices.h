#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "runtime/base/environment.h"

namespace rollcall::elastic {

/// The GPUs that a program of this process would see: NVIDIA's and AMD's device files that may be opened, as far as
/// CUDA_VISIBLE_DEVICES (ROCR_, HIP_) leaves them. Neither a driver nor Python is asked. `root`: before /dev and /sys.
[[nodiscard]] std::uint32_t count_gpus(const Environment& environment, const std::filesystem::path& root = "/");

/// The same of NVIDIA's alone.
[[nodiscard]] std::uint32_t count_nvidia_gpus(const Environment& environment, const std::filesystem::path& root = "/");

/// The same of Intel's, by ZE_AFFINITY_MASK.
[[nodiscard]] std::uint32_t count_xpus(const Environment& environment, const std::filesystem::path& root = "/");

/// How many of `present` devices a list like CUDA_VISIBLE_DEVICES leaves: it ends at the first entry that names none,
/// as in CUDA, and with its first part of a GPU (MIG), of which a process sees one (NVIDIA's MIG User Guide). Pure.
[[nodiscard]] std::uint32_t visible_devices(std::string_view list, std::uint32_t present);

}  // namespace rollcall::elastic
