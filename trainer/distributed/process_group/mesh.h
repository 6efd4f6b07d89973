#pragma once

#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/distributed/process_group/mesh_options.h"

namespace rollcall::process_group {

/// The device mesh of FSDP or HSDP: `shard` has consecutive ranks, which divide a model among them; `replicate` has the
/// ranks with the same part of it, one of each shard group. A null group has one member.
struct Mesh {
  Group world;
  Group shard;
  Group replicate;
  Group reshard;  ///< consecutive ranks of `shard`, for a second, smaller division; null if not asked for
};

/// Returns the degrees with the unset ones derived. Pure. Errors (Usage): their product is not the world size;
/// reshard_degree does not divide shard_degree.
[[nodiscard]] Result<MeshOptions> complete(const MeshOptions& options, std::uint32_t world_size);

/// Makes the groups of this rank, with the same backend as `world`; a group of all ranks is `world` itself. On a device
/// the other groups split the communicator of `world` (Plugin::add_backend).
/// Messages name ranks by their numbers in `world`. Collective. With a null `world` all groups are null. Returns the
/// errors of complete() and make_process_group().
[[nodiscard]] Result<Mesh> make_mesh(const Group& world, const c10::intrusive_ptr<c10d::Store>& store,
                                     const MeshOptions& degrees, const ProcessGroupOptions& options);

}  // namespace rollcall::process_group
