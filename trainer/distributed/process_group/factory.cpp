#include "trainer/distributed/process_group/factory.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "runtime/contract/backends.h"
#include "runtime/settings/choices.h"
#include "trainer/distributed/backends/backends.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {
namespace {

/// The default backend for CPU tensors, also if a device computes: small collectives of bytes and numbers use CPU
/// tensors.
constexpr std::string_view kOnHosts = "gloo";

constexpr std::string_view kAuto = "auto";
static_assert(settings::kChoicesOf<kAuto, kBackends> == kBackendNames);

Result<NamedBackend> choose(std::string_view asked) {
  const auto* const found = std::ranges::find(kBackends, asked == kAuto ? kOnHosts : asked, &NamedBackend::name);
  if (found == kBackends.end()) {
    return fail("--backend", std::string(asked), "is not a known backend", "rollcall-train --help");
  }
  if (found->backend == nullptr) {
    return fail("--backend", std::string(asked), "carries tensors of GPUs, but this training computes on CPUs",
                "--device=cuda or --backend=auto");
  }
  if (found->backend->add == nullptr) {
    return fail("--backend", std::string(asked), found->backend->missing, found->backend->instead);
  }
  return *found;
}

/// The number of a part is its first rank.
device::ParentGroup parent_of(const ProcessGroupOptions& options) {
  if (!options.whole) {
    return {};
  }
  return {.backend = unwatched_backend(options.whole, options.device->type), .part = options.names.first};
}

/// Chooses the backend for CPU tensors beside a device's own backend.
Result<NamedBackend> choose_beside(const device::Plugin& plugin, const std::string& asked) {
  if (asked == kAuto || asked == plugin.backend) {
    return choose(kOnHosts);
  }
  return fail("--backend", asked, fmt::format("does not carry tensors of the device; {} does", plugin.backend),
              fmt::format("--backend=auto, which selects {}, or --device=cpu", plugin.backend));
}

Result<NamedBackend> choose(const device::Plugin* plugin, const std::string& asked) {
  return plugin != nullptr ? choose_beside(*plugin, asked) : choose(asked);
}

}  // namespace

Result<void> check_backend(const std::string& asked, const device::Plugin* plugin) {
  const Result<NamedBackend> choice = choose(plugin, asked);
  return choice ? Result<void>() : choice.error();
}

Result<NamedProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank,
                                             std::uint32_t world_size, const ProcessGroupOptions& options) {
  const device::Plugin* const plugin = options.device;
  ASSIGN_OR_RETURN(const NamedBackend choice, choose(plugin, options.backend));
  NamedProcessGroup named{nullptr, plugin != nullptr ? std::string(plugin->backend) : std::string(choice.name)};
  const RankNames& names = options.names;
  const ReportingRank speaker{names.number(rank), names.ranks == 0 ? world_size : names.ranks};
  const auto guarded = [&](const std::function<void()>& work) {
    return catch_exceptions(speaker, "process group", "the ranks could not be connected with " + named.backend,
                            "checking settings interface.* with `rollcall env`, and looking for ranks that ended early",
                            work);
  };
  const auto of_watchdog = c10::make_intrusive<c10d::PrefixStore>("watchdog", store);
  Result<void> made = guarded([&] {
    named.process_group =
        c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(rank), static_cast<int>(world_size));
    options.membership->join(of_watchdog, names.number(rank), speaker.world_size);
    choice.backend->add(*named.process_group, store, {options.timeout, names, options.membership->processes()});
  });
  const c10::intrusive_ptr<c10d::ProcessGroup> unwatched = named.process_group;
  if (made) {
    made = guarded([&] {
      unwatched->setGroupName("rollcall");
      named.process_group = watch(unwatched, of_watchdog,
                                  {.rank = rank,
                                   .world_size = world_size,
                                   .names = options.names,
                                   .timeout = options.timeout,
                                   .timeout_setting = options.timeout_setting,
                                   .compare = options.compare_calls,
                                   .membership = options.membership,
                                   .expendable = options.expendable});
    });
  }
  if (plugin != nullptr && options.whole) {  // all ranks divide their communicator together, or none
    made = agree_or_fail(options.whole, made);
  }
  if (made && options.hosts_connected) {
    made = options.hosts_connected(named.process_group);
  }
  if (made && plugin != nullptr) {
    made = guarded([&] {
      watch_connecting(*named.process_group, plugin->type, [=, timeout = options.timeout, whole = parent_of(options)] {
        plugin->add_backend(*unwatched, store, timeout, whole);
      });
      watch_device(*named.process_group, *unwatched, plugin->type, plugin->health_check);
    });
  }
  if (!made) {
    return made.error();
  }
  unwatched->setGroupName("rollcall");  // of the device's part, too
  return named;
}

void leave_behind(c10::intrusive_ptr<c10d::ProcessGroup> group) {
  if (!group) {
    return;
  }
  std::optional<c10::Device> device;  // this thread's, to which the group's collectives belong
  for (const c10::Device& one : group->getDeviceTypes()) {
    device = one.is_cpu() ? device : std::optional(c10::impl::VirtualGuardImpl(one.type()).getDevice());
  }
  const auto held = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroup>>(std::move(group));
  try {
    std::thread([held, device] {
      const c10::OptionalDeviceGuard guard(device);
      held->reset();
    }).detach();
  } catch (const std::system_error&) {
    held->reset();  // no thread is available: this waits
  }
}

}  // namespace rollcall::process_group
