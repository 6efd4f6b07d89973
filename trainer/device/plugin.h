#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/result.h"
#include "trainer/device/kernels.h"

namespace rollcall::device {

/// What is known of one device. Texts may be empty.
struct Facts {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;  ///< no other device's: "GPU-8e4c1b7a-..."
  std::string bus;   ///< its place on the bus: "0000:3b:00.0"
  /// Why it cannot run Plugin::kernels; empty: it can.
  std::string without_kernels = {};
};

/// What a group is a part of: a larger one, all of whose ranks make parts of it at the same time, each rank one.
struct WholeGroup {
  /// What Plugin::add_backend gave the larger group; null: the group is no part of any.
  c10::intrusive_ptr<c10d::Backend> backend;
  std::uint32_t part = 0;  ///< the same number on all ranks of a part, and another one than that of other parts
};

/// What rollcall_NAME.so offers the programs that load it: devices of one kind beside the CPU, which LibTorch knows
/// once it is loaded. A shared object, so that the programs start, and run, where no driver is. Both are of one build:
/// plain C++ crosses the border.
struct Plugin {
  /// Sums up what crosses the border; a plugin of another build is refused.
  std::string_view build;
  c10::DeviceType type;
  /// What carries collectives of its tensors: "nccl".
  std::string_view backend;
  /// The devices that this process sees. Errors (Unavailable): the driver's reason.
  Result<std::uint32_t> (*count)();
  /// Makes device `index` the calling thread's. Errors (Unavailable): the driver's reason.
  Result<Facts> (*open)(std::uint32_t index);
  /// `backend` carries the group's collectives on tensors of the current device, and it becomes the default backend. A
  /// part of a larger group may be made from what that has found out and connected. Throws what c10d throws.
  void (*add_backend)(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                      std::chrono::milliseconds timeout, const WholeGroup& whole);
  /// What is wrong with the connections of what add_backend gave a group, though nobody has waited for a collective
  /// yet; empty: nothing. Any thread may ask.
  std::string (*health_check)(c10d::Backend& backend);
  /// The last collectives that the backends of this process were given, and how far they came, as JSON; for those who
  /// look for the one that does not end. Throws what c10d throws.
  std::string (*flight_record)();
  /// Captures as one graph what `work` gives the calling thread's current stream, which is not the device's default
  /// one, and what other streams are given that wait for it and that it waits for in the end. Nothing of it is done:
  /// what this returns gives it to the then current stream, as often as it is called, on the memory that it was
  /// captured with, which stays the graph's as long as that function. While it is captured, nothing on the host may
  /// wait for the stream. Waits for the device. Null: devices of this kind have no graphs. Throws what `work` and
  /// LibTorch throw.
  std::function<void()> (*capture)(const std::function<void()>& work);
  /// The project's own kernels for these devices; null: none, and LibTorch's operators compute.
  const Kernels* kernels;
};

/// Name of the function `const Plugin* ()` that the shared object exports; what it returns is never null.
inline constexpr const char* kPluginFunction = "rollcall_device_plugin";
using PluginFunction = const Plugin* (*)();

/// The plugin of the devices that --device names, opened once. Thread-safe. Errors: those of
/// find_plugin_function().
[[nodiscard]] Result<const Plugin*> open_plugin(const std::string& name);

}  // namespace rollcall::device
