#include "trainer/distributed/process_group/factory.h"

#include <fmt/format.h>

#include <functional>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "trainer/distributed/backends/backends.h"
#include "trainer/distributed/backends/gloo/gloo.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/watchdog/rank_query.h"
#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {
namespace {

using AddBackend = void (*)(c10d::ProcessGroup&, const c10::intrusive_ptr<c10d::Store>&, const BackendOptions&);

#ifdef ROLLCALL_UCX
constexpr bool kHasUcx = true;
#else
constexpr bool kHasUcx = false;
void add_ucx(c10d::ProcessGroup& /*group*/, const c10::intrusive_ptr<c10d::Store>& /*store*/,
             const BackendOptions& /*options*/) {}
#endif

/// What carries collectives of tensors on CPUs: also where training computes elsewhere, as small collectives of bytes
/// and numbers stay there.
struct Choice {
  std::string name;
  AddBackend add = nullptr;
};

Result<Choice> choose_ucx() {
  if (!kHasUcx) {
    return fail("--backend", "ucx", "this rollcall-train was built where UCX's headers were not found",
                "--backend=auto, or installing libucx-dev and building again");
  }
  return Choice{"ucx", &add_ucx};
}

Result<Choice> choose(const std::string& asked) {
  if (asked == "ucx") {
    return choose_ucx();
  }
  if (asked == "mpi") {
    return Choice{"mpi", &add_mpi};
  }
  if (asked == "gloo" || asked == "auto") {
    return Choice{"gloo", &add_gloo};
  }
  if (asked == "nccl") {
    return fail("--backend", "nccl", "carries tensors of GPUs, and this training computes on CPUs",
                "--device=cuda, or --backend=auto");
  }
  return fail("--backend", asked, "is not a known backend", "auto, gloo, ucx, mpi or nccl");
}

/// Parts are told apart by the first of their ranks.
device::WholeGroup whole_of(const ProcessGroupOptions& options) {
  if (!options.whole) {
    return {};
  }
  return {.backend = unwatched_backend(options.whole, options.device->type), .part = options.names.first};
}

/// The same where training computes on another device, whose own backend comes beside.
Result<Choice> choose_beside(const device::Plugin& plugin, const std::string& asked) {
  if (asked == "auto" || asked == plugin.backend) {
    return Choice{"gloo", &add_gloo};
  }
  return fail("--backend", asked, fmt::format("does not carry tensors of the device, as {} does", plugin.backend),
              fmt::format("--backend=auto, which is {} there, or --device=cpu", plugin.backend));
}

Result<Choice> choose(const device::Plugin* plugin, const std::string& asked) {
  return plugin != nullptr ? choose_beside(*plugin, asked) : choose(asked);
}

}  // namespace

Result<void> check_backend(const std::string& asked, const device::Plugin* plugin) {
  const Result<Choice> choice = choose(plugin, asked);
  return choice ? Result<void>() : choice.error();
}

std::vector<std::string> cpu_backends() {
  std::vector<std::string> names{"gloo"};
  if (kHasUcx) {
    names.emplace_back("ucx");
  }
  return names;
}

Result<NamedProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank,
                                             std::uint32_t world_size, const ProcessGroupOptions& options) {
  const device::Plugin* const plugin = options.device;
  ASSIGN_OR_RETURN(const Choice choice, choose(plugin, options.backend));
  NamedProcessGroup named{nullptr, plugin != nullptr ? std::string(plugin->backend) : choice.name};
  const RankNames& names = options.names;
  const BackendOptions of_backend{.timeout = options.timeout, .names = names};
  const Speaker speaker{names.number(rank), names.ranks == 0 ? world_size : names.ranks};
  const auto guarded = [&](const std::function<void()>& work) {
    return catch_exceptions(speaker, "process group", "the ranks could not be connected with " + named.backend,
                            "looking at settings interface.* with `rollcall env`, and for ranks that ended early",
                            work);
  };
  const auto of_watchdog = c10::make_intrusive<c10d::PrefixStore>("watchdog", store);
  Result<void> made = guarded([&] {
    named.process_group =
        c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(rank), static_cast<int>(world_size));
    publish_process(*of_watchdog, rank);
    choice.add(*named.process_group, store, of_backend);
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
                                   .ranks_lost = options.ranks_lost,
                                   .first_failure = options.first_failure},
                                  &broken_gloo_peers);
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
      watch_connecting(*named.process_group, plugin->type, [=, timeout = options.timeout, whole = whole_of(options)] {
        plugin->add_backend(*unwatched, store, timeout, whole);
      });
      watch_device(*named.process_group, *unwatched, plugin->type, plugin->trouble);
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
  const auto held = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroup>>(std::move(group));
  try {
    std::thread([held] { held->reset(); }).detach();
  } catch (const std::system_error&) {
    held->reset();  // no thread is to be had: it is waited for
  }
}

}  // namespace rollcall::process_group
