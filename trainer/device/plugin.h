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

/// Properties of one device. Texts may be empty.
struct Facts {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;  ///< unique: "GPU-8e4c1b7a-..."
  std::string bus;   ///< PCI bus address: "0000:3b:00.0"
  /// Why it cannot run Plugin::kernels; empty if it can.
  std::string without_kernels = {};
};

/// The larger group of which a group is a part. All of its ranks make parts at the same time, and each rank is in one.
struct ParentGroup {
  /// The backend that Plugin::add_backend gave the larger group; null if there is none.
  c10::intrusive_ptr<c10d::Backend> backend;
  std::uint32_t part = 0;  ///< number of the part (color): the same on all of its ranks, different for other parts
};

/// The interface of rollcall_NAME.so, a plugin for one type of devices besides the CPU, which LibTorch knows once the
/// plugin is loaded. It is a shared object so that programs also start and run without a driver. It uses plain C++
/// types, so program and plugin must come from one build.
struct Plugin {
  /// Identifies the build of the interface; a plugin of another build is refused.
  std::string_view build;
  c10::DeviceType type;
  /// Name of the backend for its tensors: "nccl".
  std::string_view backend;
  /// Returns the number of devices that this process sees. Errors (Unavailable): the driver's reason.
  Result<std::uint32_t> (*count)();
  /// Makes device `index` the calling thread's current one. Errors (Unavailable): the driver's reason.
  Result<Facts> (*open)(std::uint32_t index);
  /// Adds `backend` for tensors of the current device to the group, as its default. For a part of a larger group it may
  /// split the larger group's communicator. Throws what c10d throws.
  void (*add_backend)(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                      std::chrono::milliseconds timeout, const ParentGroup& whole);
  /// Returns what is wrong with the connections of a backend of add_backend, also before a wait for a collective has
  /// shown it; empty if nothing is. For any thread whose current device is the backend's.
  std::string (*health_check)(c10d::Backend& backend);
  /// Returns the last collectives of this process's backends and their states as JSON, to find one that does not end.
  /// Throws what c10d throws.
  std::string (*flight_record)();
  /// Captures as one graph what `work` enqueues on the calling thread's current stream, which is not the device's
  /// default stream, and on other streams that are forked from it and joined again. Does not run it: the returned
  /// function launches the graph on the then current stream, each time it is called. The graph keeps the captured
  /// memory as long as that function exists. During the capture nothing on the host may wait for the stream. Waits for
  /// the device. Null if these devices have no graphs. Throws what `work` and LibTorch throw.
  std::function<void()> (*capture)(const std::function<void()>& work);
  /// The project's own kernels for these devices; null if only LibTorch's operators compute.
  const Kernels* kernels;
};

/// Name of the function `const Plugin* ()` that the shared object exports; its result is never null.
inline constexpr const char* kPluginFunction = "rollcall_device_plugin";
using PluginFunction = const Plugin* (*)();

/// Opens the plugin of the devices that --device names, once. Thread-safe. Returns the errors of
/// find_plugin_function().
[[nodiscard]] Result<const Plugin*> open_plugin(const std::string& name);

}  // namespace rollcall::device
