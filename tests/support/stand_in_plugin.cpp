// rollcall_stand_in.so: the stand-in device for rollcall-train --device=stand_in.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/stand_in_device.h"
#include "trainer/device/plugin.h"

namespace {

using rollcall::Result;
using rollcall::device::Facts;
namespace stand_in = rollcall::testing_support::stand_in;

std::string variable(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// STAND_IN_COUNT: as many devices; "broken": the driver says so.
Result<std::uint32_t> count() {
  const std::string given = variable("STAND_IN_COUNT", "1");
  if (given == "broken") {
    return rollcall::fail("--device", "stand_in", "the driver does not answer", "another node",
                          rollcall::ExitCode::Unavailable);
  }
  return static_cast<std::uint32_t>(std::stoul(given));
}

/// Each process has the first device, under a name that is its own; STAND_IN_UUID: another name.
Result<Facts> open(std::uint32_t /*index*/) {
  return Facts{.name = "stand-in",
               .uuid = variable("STAND_IN_UUID", "stand-in-" + std::to_string(::getpid())),
               .bus = variable("STAND_IN_BUS", "")};
}

void add_backend(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& /*store*/,
                 std::chrono::milliseconds /*timeout*/, const rollcall::device::WholeGroup& /*whole*/) {
  stand_in::add_backend(group);
}

/// STAND_IN_KERNELS=1: there are some. Else the bits are the CPU's.
const rollcall::device::Kernels* kernels() {
  return variable("STAND_IN_KERNELS", "0") == "1" ? &stand_in::own_kernels() : nullptr;
}

/// STAND_IN_WAITS: a file to which a process adds, at its end, how often its host waited for the device, and for
/// moments of its streams, and graphs were replayed.
struct Report {
  ~Report() {
    if (const std::string path = variable("STAND_IN_WAITS", ""); !path.empty()) {
      const stand_in::Counts counts = stand_in::counts();
      std::ofstream(path, std::ios::app) << counts.host_waits << ' ' << counts.host_waits_for_event << ' '
                                         << counts.replays << '\n';
    }
  }
};
const Report report;

}  // namespace

extern "C" __attribute__((visibility("default"))) const rollcall::device::Plugin& rollcall_device_plugin() {
  static const rollcall::device::Plugin plugin{.build = ROLLCALL_PLUGIN_BUILD,
                                               .type = c10::DeviceType::PrivateUse1,
                                               .backend = "stand-in",
                                               .count = &count,
                                               .open = &open,
                                               .add_backend = &add_backend,
                                               .flight_record = &stand_in::flight_record,
                                               .capture = &stand_in::capture,
                                               .kernels = kernels()};
  return plugin;
}
