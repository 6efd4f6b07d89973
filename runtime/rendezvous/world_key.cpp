#include "runtime/rendezvous/world_key.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <random>

namespace rollcall::rendezvous {

std::string world_name(const job::JobFacts& facts) {
  // Under mpirun, only ranks that srun started for it know how often the job was restarted.
  const std::string step = facts.job_id && facts.is_slurms_step
                               ? fmt::format("{}-{}-{}", *facts.job_id, facts.step_id.value_or(0), facts.restart_count)
                               : fmt::format("user{}-{:08x}", getuid(), facts.port_salt);
  const std::string world = facts.first_rank == 0 ? "" : fmt::format("-from{}", facts.first_rank);
  return step + world;
}

std::string new_nonce() {
  std::random_device random;  // uses getrandom(2) or the processor in libstdc++
  return fmt::format("{:08x}{:08x}", static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random()));
}

std::string to_text(const WorldKey& key) { return fmt::format("{}-{}", key.name, key.nonce); }

}  // namespace rollcall::rendezvous
