#pragma once

#include <string>

#include "runtime/job/job_facts.h"

namespace rollcall::rendezvous {

/// What tells one world's meeting from every other: what all its ranks know before they meet, and what rank 0 draws.
struct WorldKey {
  std::string name;   ///< world_name()
  std::string nonce;  ///< drawn by rank 0 at each start (new_nonce()), told to those who know the secret
};

/// JOB-STEP-RESTART: unique per step and per start of a requeued job; with "-fromRANK" for the later worlds of a step
/// with several. Outside Slurm's steps the user's number and the launcher's run stand for job and step:
/// "user1000-0badcafe". The same in all ranks of a world; letters, digits and '-' only.
[[nodiscard]] std::string world_name(const job::JobFacts& facts);

/// 64 bits of the kernel's random numbers, as 16 hexadecimal digits.
[[nodiscard]] std::string new_nonce();

/// NAME-NONCE: the prefix of all that the world writes into a store that strangers might reach.
[[nodiscard]] std::string to_text(const WorldKey& key);

}  // namespace rollcall::rendezvous
