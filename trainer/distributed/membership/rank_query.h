#pragma once

#include <c10/util/intrusive_ptr.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {

/// How far a rank has come in its group's collectives: its answer to a query.
struct RankProgress {
  std::uint64_t issued = 0;  ///< number of the last collective that it began; 0 before the first
  std::uint64_t ended = 0;   ///< number of the last collective that ended; 0 before the first
  std::string last;          ///< to_text() of the last collective that it began
};

/// The state of a rank as a query finds it.
struct RankStatus {
  enum Presence {
    Silent,   ///< it has not answered, for an unknown reason
    Stopped,  ///< it has not answered, but its process is alive
    Here,     ///< it answered with its progress
    Left,     ///< it left the group in good order, after this progress
    Ended,    ///< its process ended without a report
    GaveUp,   ///< it left the group after a failure of its own or of another of its groups
  };

  Presence presence = Silent;
  RankProgress progress;  ///< set for Here, Left and GaveUp
  std::string reason{};   ///< why it gave up, in one line; set for GaveUp
  std::string host{};     ///< its host, set for Ended; empty where it is not known
};

/// How long a query waits for answers while no rank is known to be lost.
struct QueryTimeouts {
  std::chrono::milliseconds one_silent;      ///< while a single rank has not answered: it may be lost
  std::chrono::milliseconds several_silent;  ///< while several have not, or one whose process is alive: busy machines

  bool operator==(const QueryTimeouts&) const = default;
};

/// Returns the timeouts for a group whose ranks check for a query every `interval`. Pure.
[[nodiscard]] QueryTimeouts query_timeouts(std::chrono::milliseconds interval);

/// Returns how long after the query an answer of `ranks` may still come; 0 if no answer is awaited. Pure.
[[nodiscard]] std::chrono::milliseconds time_to_wait(const std::vector<RankStatus>& ranks,
                                                     const QueryTimeouts& timeouts);

/// Returns whether an answer of this rank may still come.
[[nodiscard]] bool is_awaited(const RankStatus& rank);

[[nodiscard]] std::string serialise(const RankStatus& status);
[[nodiscard]] std::optional<RankStatus> parse_rank_status(const std::string& text);

/// Returns "on jwb0002 was lost in step 10 (its process ended)"; `host` and `where` may be empty. Pure.
[[nodiscard]] std::string lost_text(const std::string& host, const std::string& where);

/// What who_is_missing() returns when no rank is missing.
inline constexpr std::string_view kAllRanksHaveArrived = "all ranks have arrived";

/// Returns why collective `number` does not end; `ranks` and `names` are indexed by rank: "rank 2 has not arrived: it
/// is busy elsewhere, its last collective was all-reduce 40 (float32 [10], sum, 40 B)"; "rank 3 does not respond: it is
/// stopped or lost". Names at most eight ranks. Pure. `where`: "in step 10", or empty.
[[nodiscard]] std::string who_is_missing(std::uint64_t number, const std::vector<RankStatus>& ranks,
                                         const RankNames& names = {}, const std::string& where = {});

/// Returns which ranks will certainly never come to collective `number`: "rank 3 on jwb0002 was lost in step 10 (its
/// process ended)". Empty if none is known. Names at most eight ranks. Pure. `where` as above.
[[nodiscard]] std::string who_is_gone(std::uint64_t number, const std::vector<RankStatus>& ranks,
                                      const RankNames& names = {}, const std::string& where = {});

// The ranks of one host find each other in the store. Each host has its own list there, so the number of entries that a
// rank reads grows only with the ranks of its host. Both functions throw what the store throws.

/// Adds this process to its host's list. Call it before the ranks connect: every list is complete afterwards.
void publish_process(c10d::Store& store, std::uint32_t rank);

/// Makes `processes` watch the other published ranks of this host.
void watch_host_peers(c10d::Store& store, std::uint32_t own_rank, ProcessWatch& processes);

/// Asks the ranks of a group, through its store, how far they are. The store keeps each rank's last status. Use one
/// instance per thread; copies share the store's connection. Throws what the store throws.
///
/// The other ranks of its host see whether the process of a silent rank has ended or is alive, and write that into the
/// store for all.
class RankQuery {
 public:
  /// `processes` knows the ranks by their numbers in the step.
  RankQuery(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<const ProcessWatch> processes, std::uint32_t rank,
            std::uint32_t world_size, const RankNames& names = {})
      : store_(std::move(store)),
        processes_(std::move(processes)),
        rank_(rank),
        world_size_(world_size),
        names_(names) {}

  /// Publishes this rank's host, for messages about its loss.
  void publish_host(const std::string& host) const;
  /// Returns the host that `rank` published; empty if it has not.
  [[nodiscard]] std::string host_of(std::uint32_t rank) const;

  /// Returns whether a rank has started a query.
  [[nodiscard]] bool is_asked() const;
  void answer(const RankProgress& progress) const;
  /// Reports that this rank leaves in good order. The store has the report when this returns.
  void leave(const RankProgress& progress) const;
  /// Reports that this rank cannot continue, and why. The store has the report when this returns.
  void give_up(const RankProgress& progress, const std::string& reason) const;
  [[nodiscard]] bool has_left(std::uint32_t rank) const;

  /// Asks all ranks how far they are in collective `number`; `own` is this rank's progress. With `any_lost` returns
  /// who_is_gone() as soon as it names a rank. Otherwise, and in the end, returns who_is_missing().
  [[nodiscard]] std::string ask(std::uint64_t number, const RankProgress& own, bool any_lost,
                                const QueryTimeouts& timeouts, const std::string& where = {}) const;

 private:
  void write(std::uint32_t rank, const RankStatus& status) const;
  void write_last(const RankStatus& status) const;
  [[nodiscard]] std::optional<RankStatus> status_of(std::uint32_t rank) const;
  /// Returns whether this rank, or another rank of that host, sees that the process of `rank` is alive.
  [[nodiscard]] bool is_alive(std::uint32_t rank) const;
  /// Updates the ranks that had not answered.
  void complete(std::vector<RankStatus>& ranks) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<const ProcessWatch> processes_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  RankNames names_;
};

}  // namespace rollcall::process_group
