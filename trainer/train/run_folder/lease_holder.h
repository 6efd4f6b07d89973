#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/environment.h"

namespace rollcall::train {

/// The holder of a lease.
struct Holder {
  std::string nonce;  ///< unique to this holder
  std::string host;
  std::string boot;       ///< boot ID of the kernel: many containers may have the same host name
  std::string processes;  ///< PID namespace of `pid`
  std::int64_t pid = 0;
  std::string started;  ///< start time of the process in clock ticks, because PIDs are used again
  std::string cluster;  ///< Slurm's name of the cluster: each cluster counts its jobs
  std::string job;      ///< Slurm's job; empty: none
  std::string restarts;
  std::string run;  ///< ROLLCALL_RUN of `rollcall run`; empty: none
  std::string generation;
};

/// Returns this process with a new nonce.
[[nodiscard]] Holder this_run(const Environment& environment);

[[nodiscard]] std::string to_json(const Holder& holder);
/// Parses a lease. A file that is not a lease, or was half written by a dead process, gives a holder without
/// properties. Anyone may have written it; its texts are made safe for a terminal.
[[nodiscard]] Holder from_json(const std::string& text);
/// Returns "job 12, process 34 on jwb0001" for people.
[[nodiscard]] std::string text_of(const Holder& holder);

/// Whether a holder still runs.
enum class Standing { Dead, Alive, Unknown };

/// Asks this host's kernel; returns Unknown for processes elsewhere.
[[nodiscard]] Standing by_kernel(const Holder& holder, const Holder& self);
/// Returns whether `holder` is an earlier start of this job that Slurm has ended, or an earlier generation of the same
/// `rollcall run`. A process that outlived its start does not take the folder from a later one.
[[nodiscard]] bool is_earlier_start(const Holder& holder, const Holder& self);
/// Asks Slurm: squeue(1) lists jobs that have not ended, and rejects a number that it no longer knows. Waits some
/// seconds for a controller that does not respond.
[[nodiscard]] Standing by_slurm(const Holder& holder, const Holder& self, const Environment& environment);

}  // namespace rollcall::train
