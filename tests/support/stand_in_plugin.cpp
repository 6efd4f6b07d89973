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
                          rollcall::ErrorKind::Unavailable);
  }
  return static_cast<std::uint32_t>(std::stoul(given));
}

/// Of a variable that has a word for each device, by commas; the last one is also that of those behind it.
std::string word_of(const char* variable_name, std::uint32_t index) {
  std::istringstream words(variable(variable_name, ""));
  std::string word;
  for (std::uint32_t i = 0; i <= index; ++i) {
    std::getline(words, word, ',');
  }
  return word;
}

/// STAND_IN_NAME, STAND_IN_UUID: of each device; without the latter each process has devices of its own, whose UUIDs
/// say so.
std::string name_of(std::uint32_t index) {
  const std::string name = word_of("STAND_IN_NAME", index);
  return name.empty() ? "stand-in" : name;
}
std::string uuid_of(std::uint32_t index) {
  const std::string uuid = word_of("STAND_IN_UUID", index);
  return uuid.empty() ? fmt::format("stand-in-{}-{}", ::getpid(), index) : uuid;
}

Result<Facts> open(std::uint32_t index) {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
  guard.setDevice({c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)});
  return Facts{.name = name_of(index),
               .uuid = uuid_of(index),
               .bus = variable("STAND_IN_BUS", ""),
               .without_kernels = word_of("STAND_IN_WITHOUT_KERNELS", index)};  // for each device why, or nothing
}

/// As NCCL connects ranks: it waits for all of them, whatever has become of them, and refuses two on one device of a
/// host, which is what NCCL_HOSTID says where it is set.
/// STAND_IN_UNREACHABLE: the rank that is not reached by the others.
void connect(const c10d::ProcessGroup& group, c10d::Store& store) {
  if (variable("STAND_IN_UNREACHABLE", "") == std::to_string(group.getRank())) {
    while (true) {
      ::pause();
    }
  }
  const auto key = [](int rank) { return "stand-in/" + std::to_string(rank); };
  const std::string mine =
      variable("NCCL_HOSTID", "") + " " + uuid_of(static_cast<std::uint32_t>(stand_in::device().index()));
  store.set(key(group.getRank()), std::vector<std::uint8_t>(mine.begin(), mine.end()));
  std::set<std::vector<std::uint8_t>> connected;
  for (int rank = 0; rank < group.getSize(); ++rank) {
    TORCH_CHECK(connected.insert(store.get(key(rank))).second, "stand-in: two ranks are on one device");
  }
}

void add_backend(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                 std::chrono::milliseconds /*timeout*/, const rollcall::device::ParentGroup& /*whole*/) {
  connect(group, *store);
  stand_in::add_backend(group);
}

/// STAND_IN_KERNELS=1: there are some. Else the bits are the CPU's.
const rollcall::device::Kernels* kernels() {
  return variable("STAND_IN_KERNELS", "0") == "1" ? &stand_in::own_kernels() : nullptr;
}

/// STAND_IN_WAITS: a file to which a process adds, at its end, how often its host waited for the device, and for
/// moments of its streams, and graphs were replayed, on which devices it made something, and how often memory of the
/// host was page-locked; then other counts by name: "8 21 0 1 130 page_locked_bytes=4096 ...".
struct Report {
  ~Report() {
    if (const std::string path = variable("STAND_IN_WAITS", ""); !path.empty()) {
      const stand_in::Counts counts = stand_in::counts();
      std::ofstream(path, std::ios::app) << counts.host_waits << ' ' << counts.host_waits_for_event << ' '
                                         << counts.replays << ' '
                                         << fmt::format("{}", fmt::join(stand_in::contexts(), ",")) << ' '
                                         << counts.page_locks << " page_locked_bytes=" << counts.page_locked_bytes
                                         << " page_locked_by_main=" << counts.page_locked_by_main
                                         << " events=" << counts.events << " copies_to_host=" << counts.copies_to_host
                                         << " reordered_copies=" << counts.reordered_copies << " casts=" << counts.casts
                                         << " searches=" << counts.searches << '\n';
    }
  }
};
const Report report;

}  // namespace

extern "C" __attribute__((visibility("default"))) const rollcall::device::Plugin* rollcall_device_plugin() {
  static const rollcall::device::Plugin plugin{.build = ROLLCALL_PLUGIN_BUILD,
                                               .type = c10::DeviceType::PrivateUse1,
                                               .backend = "stand-in",
                                               .count = &count,
                                               .open = &open,
                                               .add_backend = &add_backend,
                                               .health_check = &stand_in::health_check,
                                               .flight_record = &stand_in::flight_record,
                                               .capture = &stand_in::capture,
                                               .kernels = kernels()};
  return &plugin;
}
