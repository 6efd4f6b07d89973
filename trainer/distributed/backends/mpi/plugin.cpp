#include "trainer/distributed/backends/mpi/plugin.h"

#include "trainer/distributed/backends/mpi/connect.h"

extern "C" __attribute__((visibility("default"))) const rollcall::process_group::mpi::Plugin& rollcall_mpi_plugin() {
  static const rollcall::process_group::mpi::Plugin plugin{ROLLCALL_PLUGIN_BUILD,
                                                           &rollcall::process_group::mpi::connect};
  return plugin;
}
