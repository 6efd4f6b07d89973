#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "tests/support/connected_ranks.h"
#include "tests/support/rank_processes.h"
#include "trainer/distributed/backends/backends.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/distributed/process_group/store.h"
#include "trainer/torch.h"

/// Ranks as real processes that use LibTorch.
///
///   const auto ranks = testing_support::spawn(4, [](testing_support::Rank& rank) {
///     MULTIPROC_CHECK(something that holds on every rank);
///   });
///   EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
///
/// The test program itself must not have used LibTorch's thread pools. Each rank has one compute thread and a file
/// store of its own group in a temporary folder.
namespace rollcall::testing_support {

/// One rank, seen from inside.
struct Rank : RankContext {
  std::string backend = "gloo";  ///< of the groups to come
  int groups_made = 0;
  std::shared_ptr<ConnectedRanks> connected = nullptr;

  /// A client of the trainer's store, which rank 0 serves until it lets go of what this returned. For tests that stop
  /// a rank: one that is stopped while it has locked a FileStore stops all others. Call it once.
  [[nodiscard]] c10::intrusive_ptr<c10d::Store> store_of_rank_0() const {
    rendezvous::Meeting meeting = connected->take(rank);
    auto store = process_group::connect_store(meeting, rank, world_size, std::chrono::minutes(1));
    return store ? *store : throw std::runtime_error(store.error().message());
  }

  /// A new store and process group of all ranks; every rank calls it equally often.
  c10::intrusive_ptr<c10d::ProcessGroup> make_group(std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                                    bool compare_calls = false) {
    const std::string path = folder / ("store" + std::to_string(groups_made++));
    return make_group_over(c10::make_intrusive<c10d::FileStore>(path, -1), timeout, compare_calls);
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> make_group_over(const c10::intrusive_ptr<c10d::Store>& store,
                                                                       std::chrono::milliseconds timeout,
                                                                       bool compare_calls = false) const {
    auto group = process_group::make_process_group(
        store, rank, world_size, {.backend = backend, .timeout = timeout, .compare_calls = compare_calls});
    return group ? group->process_group : throw std::runtime_error(group.error().message());
  }
};

/// The running ranks of one group; see RankProcesses.
class Ranks : public RankProcesses {
 public:
  Ranks(std::uint32_t world_size, const std::function<void(Rank&)>& work)
      : RankProcesses(world_size,
                      [&work, connected = std::make_shared<ConnectedRanks>(world_size)](const RankContext& place) {
                        at::set_num_threads(1);
                        Rank rank{place};
                        rank.connected = connected;
                        work(rank);
                      }) {}
};

/// Runs `work` on every rank to its end.
inline std::vector<RankResult> spawn(std::uint32_t world_size, const std::function<void(Rank&)>& work) {
  return Ranks(world_size, work).wait();
}

}  // namespace rollcall::testing_support

namespace rollcall::process_group {

/// The backends for tensors on CPUs that are in this build and need no launcher of their own.
inline std::vector<std::string> cpu_backends() {
  std::vector<std::string> names;
  for (const auto& [name, backend] : kBackends) {
    if (backend != nullptr && backend->add != nullptr && name != "mpi") {
      names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace rollcall::process_group
