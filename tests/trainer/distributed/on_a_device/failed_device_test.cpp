// The groups of a device that fails.

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"
#include "trainer/distributed/membership/membership.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/distributed/watchdog/device_connections.h"
#include "trainer/streams.h"

namespace rollcall::process_group {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

void add_stand_in(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& /*store*/,
                  std::chrono::milliseconds /*timeout*/, const device::ParentGroup& /*whole*/) {
  stand_in::add_backend(group);
}

bool becomes(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  return condition();
}

/// Two groups of one rank. A graph has a collective of the first one, which a backend waits for as it is aborted.
TEST(FailedDevice, GroupsAreAbortedTogetherWhileAGraphLives) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    device::Plugin plugin{};
    plugin.type = stand_in::device().type();
    plugin.backend = "stand-in";
    plugin.add_backend = &add_stand_in;
    const ProcessGroupOptions options{.device = &plugin, .membership = std::make_shared<Membership>()};
    const auto store = c10::make_intrusive<c10d::HashStore>();
    const auto make = [&](const char* name) {
      return make_process_group(c10::make_intrusive<c10d::PrefixStore>(name, store), 0, 1, options);
    };
    const Result<NamedProcessGroup> captured = make("captured");
    const Result<NamedProcessGroup> other = make("other");
    MULTIPROC_CHECK(captured.has_value() && other.has_value());

    const c10::StreamGuard computing(new_stream(stand_in::device()));
    at::Tensor tensor = torch::ones({4}, at::TensorOptions(stand_in::device()));
    CapturedCollectives collectives;
    std::function<void()> replay = stand_in::capture([&] {
      collectives.capture([&] { MULTIPROC_CHECK(all_reduce_sum(captured->process_group, tensor).has_value()); });
    });
    options.membership->device_fails(fail("--device", "", "it fell off the bus", "another", ErrorKind::DeviceLost));
    MULTIPROC_CHECK(becomes([] { return stand_in::aborts() == stand_in::Aborts{.begun = 2, .ended = 1}; }));

    MULTIPROC_CHECK(aborts_are_under_way());

    replay = nullptr;
    MULTIPROC_CHECK(becomes([] { return stand_in::aborts() == stand_in::Aborts{.begun = 2, .ended = 2}; }));
    MULTIPROC_CHECK(becomes([] { return !aborts_are_under_way(); }));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::process_group
