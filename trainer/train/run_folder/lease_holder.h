#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/environment.h"

namespace rollcall::train {

/// Who has a lease.
struct Holder {
  std::string nonce;  ///< no other holder's
  std::string host;
  std::string boot;       ///< of the kernel: a host's name may be that of many containers
  std::string processes;  ///< the namespace that `pid` counts in
  std::int64_t pid = 0;
  std::string started;  ///< of the process, in the kernel's ticks: numbers of processes are used again
  std::string cluster;  ///< Slurm's name of it: another one counts its jobs by itself
  std::string job;      ///< Slurm's; empty: none
  std::string restarts;
  std::string run;  ///< of `rollcall run` (ROLLCALL_RUN); empty: none
  std::string generation;
};

/// This process, with a nonce of its own.
[[nodiscard]] Holder this_run(const Environment& environment);

[[nodiscard]] std::string to_json(const Holder& holder);
/// Of a file that is none of ours, or half written by one who died: a holder of whom nothing is known. Anybody may have
/// written it; what is shown of it steers no terminal.
[[nodiscard]] Holder from_json(const std::string& text);
/// For people: "job 12, process 34 on jwb0001".
[[nodiscard]] std::string text_of(const Holder& holder);

/// Whether a holder still runs.
enum class Standing { Dead, Alive, Unknown };

/// What this host's kernel says; Unknown of processes elsewhere.
[[nodiscard]] Standing by_kernel(const Holder& holder, const Holder& self);
/// A job that Slurm has started again has ended before, and so has an earlier generation of the same `rollcall run`. A
/// process that outlived its start does not take the folder from a later one.
[[nodiscard]] bool is_earlier_start(const Holder& holder, const Holder& self);
/// What Slurm says: squeue(1) lists jobs that have not ended, and refuses a number that it does not know any more.
/// Waits some seconds for a controller that does not answer.
[[nodiscard]] Standing by_slurm(const Holder& holder, const Holder& self, const Environment& environment);

}  // namespace rollcall::train
