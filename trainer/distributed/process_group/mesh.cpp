#include "trainer/distributed/process_group/mesh.h"

#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace rollcall::process_group {
namespace {

Error wrong_product(const MeshOptions& options, std::uint32_t world_size) {
  return fail("--shard-degree", std::to_string(options.shard_degree),
              "multiplied by --replicate-degree " + std::to_string(options.replicate_degree) +
                  " is not the number of ranks, " + std::to_string(world_size),
              "leaving one of them at 0, which derives it from the other");
}

/// A row or column of the mesh, in which this rank is number `rank`.
struct Line {
  RankNames names;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

/// Makes a group; `name` and its first rank identify it. Every rank of the world is in one group of that name.
Result<Group> make_group(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name, const Line& line,
                         ProcessGroupOptions options) {
  if (line.size == 1) {
    return Group();
  }
  const auto own =
      c10::make_intrusive<c10d::PrefixStore>("mesh/" + name + "/" + std::to_string(line.names.first), store);
  options.names = line.names;
  const Result<NamedProcessGroup> made = make_process_group(own, line.rank, line.size, options);
  return made ? Result<Group>(made->process_group) : Result<Group>(made.error());
}

}  // namespace

Result<MeshOptions> complete(const MeshOptions& options, std::uint32_t world_size) {
  MeshOptions whole = options;
  if (whole.shard_degree == 0) {
    whole.shard_degree = world_size / std::max<std::uint32_t>(1, whole.replicate_degree);
  }
  if (whole.replicate_degree == 0) {
    whole.replicate_degree = world_size / std::max<std::uint32_t>(1, whole.shard_degree);
  }
  if (std::uint64_t{whole.shard_degree} * whole.replicate_degree != world_size) {
    return wrong_product(options, world_size);
  }
  if (whole.reshard_degree != 0 && whole.shard_degree % whole.reshard_degree != 0) {
    return fail("--reshard-after-forward", std::to_string(whole.reshard_degree),
                "is not a divisor of the " + std::to_string(whole.shard_degree) + " ranks that share a model",
                "setting it to on, off or a divisor");
  }
  return whole;
}

Result<Mesh> make_mesh(const Group& world, const c10::intrusive_ptr<c10d::Store>& store, const MeshOptions& degrees,
                       const ProcessGroupOptions& options) {
  ASSIGN_OR_RETURN(const MeshOptions whole, complete(degrees, world_size_of(world)));
  Mesh mesh{.world = world, .shard = world, .replicate = nullptr, .reshard = nullptr};
  if (!world) {
    return mesh;
  }
  ProcessGroupOptions of_parts = options;
  of_parts.whole = world;
  const std::uint32_t rank = rank_of(world);
  const std::uint32_t ranks = world_size_of(world);
  const auto part_of_row = [rank, ranks](std::uint32_t size) {
    return Line{.names = {.first = rank - rank % size, .stride = 1, .ranks = ranks}, .rank = rank % size, .size = size};
  };
  if (whole.replicate_degree > 1) {
    ASSIGN_OR_RETURN(const Group shard, make_group(store, "shard", part_of_row(whole.shard_degree), of_parts));
    mesh.shard = shard;
    const Line column{.names = {.first = rank % whole.shard_degree, .stride = whole.shard_degree, .ranks = ranks},
                      .rank = rank / whole.shard_degree,
                      .size = whole.replicate_degree};
    ASSIGN_OR_RETURN(const Group replicate, make_group(store, "replicate", column, of_parts));
    mesh.replicate = replicate;
  }
  if (whole.reshard_degree > 1) {
    ASSIGN_OR_RETURN(const Group reshard, make_group(store, "reshard", part_of_row(whole.reshard_degree), of_parts));
    mesh.reshard = reshard;
  }
  return mesh;
}

}  // namespace rollcall::process_group
