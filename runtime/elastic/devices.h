#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "runtime/base/environment.h"

namespace rollcall::elastic {

/// Counts the GPUs that a program started by this process would see: NVIDIA's and AMD's device files that can be opened
/// and that CUDA_VISIBLE_DEVICES (ROCR_, HIP_) does not hide. Uses neither a driver nor Python. `root`: prefix of /dev
/// and /sys.
[[nodiscard]] std::uint32_t count_gpus(const Environment& environment, const std::filesystem::path& root = "/");

/// Counts NVIDIA's GPUs alone, likewise.
[[nodiscard]] std::uint32_t count_nvidia_gpus(const Environment& environment, const std::filesystem::path& root = "/");

/// Counts Intel's GPUs, likewise, with ZE_AFFINITY_MASK.
[[nodiscard]] std::uint32_t count_xpus(const Environment& environment, const std::filesystem::path& root = "/");

/// Returns how many of `present` devices a list like CUDA_VISIBLE_DEVICES leaves visible. As in CUDA, the list ends at
/// the first invalid entry, and after the first part of a GPU (MIG), since a process sees only one of them (NVIDIA's
/// MIG User Guide). Pure.
[[nodiscard]] std::uint32_t visible_devices(std::string_view list, std::uint32_t present);

}  // namespace rollcall::elastic
