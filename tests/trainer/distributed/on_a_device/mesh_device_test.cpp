// The parent group that a device plugin gets for each group of a mesh.

#include "trainer/distributed/process_group/mesh.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"

namespace rollcall::process_group {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

struct Added {
  const c10d::Backend* whole;
  std::uint32_t part;
  int size;
  bool operator==(const Added&) const = default;
};
std::vector<Added> added;  ///< by this rank, in order

void add(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& /*store*/,
         std::chrono::milliseconds /*timeout*/, const device::ParentGroup& whole) {
  stand_in::add_backend(group);
  added.push_back({whole.backend.get(), whole.part, group.getSize()});
}

/// The groups of six ranks, of which three divide a model and two replicate it.
TEST(MeshOnADevice, GroupsAreSplitFromTheBackendOfTheWorld) {
  const auto ranks = spawn(6, [](Rank& rank) {
    device::Plugin plugin{};
    plugin.type = stand_in::device().type();
    plugin.backend = "stand-in";
    plugin.add_backend = &add;
    const ProcessGroupOptions options{.device = &plugin};
    const auto store = c10::make_intrusive<c10d::FileStore>(rank.folder / "mesh", -1);
    const auto world = make_process_group(store, rank.rank, rank.world_size, options);
    MULTIPROC_CHECK(world.has_value() && added == (std::vector<Added>{{nullptr, 0, 6}}));
    const c10d::Backend* const whole = unwatched_backend(world->process_group, plugin.type).get();
    MULTIPROC_CHECK(whole != world->process_group->getBackend(plugin.type).get());

    const Result<Mesh> mesh = make_mesh(world->process_group, store, {.shard_degree = 3}, options);
    MULTIPROC_CHECK(mesh.has_value());
    MULTIPROC_CHECK(added == (std::vector<Added>{
                                 {nullptr, 0, 6}, {whole, rank.rank - rank.rank % 3, 3}, {whole, rank.rank % 3, 2}}));
    MULTIPROC_CHECK(barrier(world->process_group).has_value());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::process_group
