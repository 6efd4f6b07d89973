#include "trainer/distributed/backends/mpi/plugin/plugin.h"

#include <mpi.h>
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "trainer/distributed/backends/mpi/plugin/engine.h"
#include "trainer/distributed/backends/mpi/plugin/world.h"

namespace rollcall::process_group::mpi {
namespace {

/// A rank in MPI's numbering.
struct MpiRank {
  int rank = 0;
  int size = 0;
  std::string job;  ///< the launcher's name for it; may be empty
};

MpiRank this_mpi_rank() {
  MpiRank place;
  const std::lock_guard lock(mpi_mutex());
  MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place.size);
  const char* const job = std::getenv("PMIX_NAMESPACE");
  place.job = job == nullptr ? "" : job;
  return place;
}

std::string pack(const MpiRank& place) {
  return std::to_string(place.rank) + " " + std::to_string(place.size) + " " + place.job;
}

MpiRank unpack(const std::string& text) {
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first + 1);
  return MpiRank{std::stoi(text), std::stoi(text.substr(first)), text.substr(second + 1)};
}

/// Returns MPI's ranks of the group's ranks, if all are different ranks of one MPI job. The same result on all ranks.
Result<std::vector<int>> ranks_in_mpi(const std::vector<std::string>& records) {
  std::vector<int> ranks;
  const MpiRank first = unpack(records.at(0));
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const MpiRank place = unpack(records[rank]);
    const auto same = std::find(ranks.begin(), ranks.end(), place.rank);
    if (place.job != first.job || place.size != first.size || same != ranks.end()) {
      return fail("--backend", "mpi",
                  "the ranks do not belong to one MPI job: rank " + std::to_string(rank) + " is number " +
                      std::to_string(place.rank) + " of " + std::to_string(place.size) + " in MPI, rank 0 is number " +
                      std::to_string(first.rank) + " of " + std::to_string(first.size),
                  "starting all ranks with one `srun --mpi=pmix` or one `mpirun`", ErrorKind::Mismatch);
    }
    ranks.push_back(place.rank);
  }
  return ranks;
}

/// Makes the communicator. All ranks wait for each other in it; the store has just synchronised them.
Result<MPI_Comm> communicator_of(const std::vector<int>& ranks) {
  const std::lock_guard lock(mpi_mutex());
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
  constexpr int kTag = 0;
  const int code = MPI_Comm_create_group(MPI_COMM_WORLD, group, kTag, &communicator);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  if (code != MPI_SUCCESS) {
    return failed("MPI_Comm_create_group", code);
  }
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

/// Implements Plugin::connect().
Result<std::unique_ptr<process_group::Engine>> connect(const BootstrapAllGather& arrival,
                                                       const BootstrapAllGather& all_gather) {
  RETURN_IF_ERROR(check_launched());
  if (has_given_up()) {
    return fail("--backend", "mpi", "a group of this process has failed, after which MPI cannot be used",
                "restarting the processes, or --backend=ucx", ErrorKind::Unavailable);
  }
  RETURN_IF_ERROR(arrival(""));
  RETURN_IF_ERROR(begin());
  ASSIGN_OR_RETURN(const std::vector<std::string> records, all_gather(pack(this_mpi_rank())));
  ASSIGN_OR_RETURN(const std::vector<int> ranks, ranks_in_mpi(records));
  ASSIGN_OR_RETURN(const MPI_Comm communicator, communicator_of(ranks));
  return std::unique_ptr<process_group::Engine>(std::make_unique<Engine>(communicator));
}

}  // namespace
}  // namespace rollcall::process_group::mpi

extern "C" __attribute__((visibility("default"))) const rollcall::process_group::mpi::Plugin* rollcall_mpi_plugin() {
  static const rollcall::process_group::mpi::Plugin plugin{ROLLCALL_PLUGIN_BUILD,
                                                           &rollcall::process_group::mpi::connect};
  return &plugin;
}
