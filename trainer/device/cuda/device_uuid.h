#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace rollcall::device {

/// Returns the UUID of a device from its 16 bytes, as nvidia-smi shows it and NVML takes it: "GPU-8e4c1b7a-...", or
/// "MIG-..." for a MIG instance. `name` is CUDA's name of the device, for an instance "NVIDIA H100 80GB HBM3 MIG
/// 1g.10gb". `visible` is the value of CUDA_VISIBLE_DEVICES, which may be empty. A process has at most one instance, so
/// one that is named there is this one: older drivers return the GPU's bytes for an instance (cuDeviceGetUuid before
/// CUDA 12), or name it "MIG-GPU-.../1/0". Pure.
[[nodiscard]] inline std::string device_uuid(const std::array<unsigned char, 16>& bytes, std::string_view name,
                                             std::string_view visible) {
  constexpr std::string_view kInstance = "MIG-";
  const std::string_view named = visible.substr(0, visible.find(','));
  const bool is_named = named.starts_with(kInstance);
  std::string text = is_named || name.find(" MIG ") != std::string_view::npos ? "MIG" : "GPU";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool group_begins = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", group_begins ? "-" : "", bytes[i]);
  }
  return is_named && !text.starts_with(named) ? std::string(named) : text;  // CUDA takes the beginning of a name, too
}

}  // namespace rollcall::device
