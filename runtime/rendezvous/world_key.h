#pragma once

#include <string>

#include "runtime/job/job_facts.h"

namespace rollcall::rendezvous {

/// What identifies one start of a world: the name that all ranks know beforehand, and the nonce that rank 0 draws.
struct WorldKey {
  std::string name;   ///< world_name()
  std::string nonce;  ///< drawn by rank 0 at each start (new_nonce()), sent to peers that know the secret
};

/// Returns JOB-STEP-RESTART, which is unique per step and per start of a requeued job, with "-fromRANK" for the later
/// worlds of a step with several. Outside Slurm's steps, the user's number and the launcher's run replace job and step:
/// "user1000-0badcafe". The same in all ranks of a world; consists of letters, digits and '-'.
[[nodiscard]] std::string world_name(const job::JobFacts& facts);

/// Returns 64 random bits from the kernel as 16 hexadecimal digits.
[[nodiscard]] std::string new_nonce();

/// Returns NAME-NONCE, the prefix of the world's keys in a store that others might reach.
[[nodiscard]] std::string to_text(const WorldKey& key);

}  // namespace rollcall::rendezvous
