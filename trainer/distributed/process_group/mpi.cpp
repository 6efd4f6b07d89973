#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "trainer/distributed/backends/c10d/backend.h"
#include "trainer/distributed/process_group/backends.h"
#include "trainer/distributed/process_group/collective_failure.h"
#include "trainer/distributed/process_group/mpi_plugin.h"
#include "trainer/distributed/process_group/store_exchange.h"

namespace rollcall::process_group {

void add_mpi(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
             const ProcessGroupOptions& options) {
  const Result<const mpi::Plugin*> plugin = load_mpi_plugin();
  if (!plugin) {
    throw CollectiveFailure(plugin.error());
  }
  const int rank = group.getRank();
  const int size = group.getSize();
  // MPI begins only where all ranks have ended what this process was before, a client of PMIx: a rank that ends it
  // later would be counted as absent from what MPI does then (rendezvous/exec_step.cpp).
  const auto arrived = c10::make_intrusive<c10d::PrefixStore>("mpi/arrived", store);
  if (const auto all = exchange_over(arrived, rank, size)(""); !all) {
    throw CollectiveFailure(all.error());
  }
  const auto own = c10::make_intrusive<c10d::PrefixStore>("mpi", store);
  Result<std::unique_ptr<Engine>> engine = (*plugin)->connect(exchange_over(own, rank, size));
  if (!engine) {
    throw CollectiveFailure(engine.error());
  }
  group.setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::MPI,
                   c10::intrusive_ptr<c10d::Backend>(
                       c10::make_intrusive<EngineBackend>("mpi", *std::move(engine), rank, size, options.timeout)));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::MPI);
}

}  // namespace rollcall::process_group
