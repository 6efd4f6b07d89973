// rollcall_stand_in.so: the stand-in device for rollcall-train --device=stand_in.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

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

/// STAND_IN_COUNT: as many devices (read once); "broken": the driver says so.
Result<std::uint32_t> count() {
  const std::string given = variable("STAND_IN_COUNT", "1");
  if (given == "broken") {
    return rollcall::fail("--device", "stand_in", "the driver does not answer", "another node",
                          rollcall::ExitCode::Unavailable);
  }
  return static_cast<std::uint32_t>(std::stoul(given));
}

/// Each process has devices of its own, whose names say so; STAND_IN_UUID: other names, by commas; the
/// last one is also that of those behind it.
std::string uuid_of(std::uint32_t index) {
  std::istringstream names(variable("STAND_IN_UUID", ""));
  std::string name;
  for (std::uint32_t i = 0; i <= index; ++i) {
    std::getline(names, name, ',');
  }
  return name.empty() ? fmt::format("stand-in-{}-{}", ::getpid(), index) : name;
}

Result<Facts> open(std::uint32_t index) {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
  guard.setDevice({c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)});
  return Facts{.name = "stand-in", .uuid = uuid_of(index), .bus = variable("STAND_IN_BUS", "")};
}

/// As NCCL connects ranks: it waits for all of them, whatever has become of them, and refuses two on one device.
void connect(const c10d::ProcessGroup& group, c10d::Store& store) {
  const auto key = [](int rank) { return "stand-in/" + std::to_string(rank); };
  const std::string mine = uuid_of(static_cast<std::uint32_t>(stand_in::device().index()));
  store.set(key(group.getRank()), std::vector<std::uint8_t>(mine.begin(), mine.end()));
  std::set<std::vector<std::uint8_t>> connected;
  for (int rank = 0; rank < group.getSize(); ++rank) {
    TORCH_CHECK(connected.insert(store.get(key(rank))).second, "stand-in: two ranks are on one device");
  }
}

void add_backend(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                 std::chrono::milliseconds /*timeout*/, const rollcall::device::WholeGroup& /*whole*/) {
  connect(group, *store);
  stand_in::add_backend(group);
}

/// STAND_IN_KERNELS=1: there are some. Else the bits are the CPU's.
const rollcall::device::Kernels* kernels() {
  return variable("STAND_IN_KERNELS", "0") == "1" ? &stand_in::own_kernels() : nullptr;
}

/// STAND_IN_WAITS: a file to which a process adds, at its end, how often its host waited for the device, and for
/// moments of its streams, and graphs were replayed, on which devices it made something, and how often memory of the
/// host was page-locked: "8 21 0 1 130".
struct Report {
  ~Report() {
    if (const std::string path = variable("STAND_IN_WAITS", ""); !path.empty()) {
      const stand_in::Counts counts = stand_in::counts();
      std::ofstream(path, std::ios::app) << counts.host_waits << ' ' << counts.host_waits_for_event << ' '
                                         << counts.replays << ' '
                                         << fmt::format("{}", fmt::join(stand_in::contexts(), ",")) << ' '
                                         << counts.page_locks << '\n';
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
