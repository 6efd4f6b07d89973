#pragma once

#include <c10/util/intrusive_ptr.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {

/// What a rank answers when the others ask where it is.
struct RankProgress {
  std::uint64_t issued = 0;  ///< number of the last collective that it began; 0: none
  std::uint64_t ended = 0;   ///< of the last one that ended
  std::string last;          ///< to_text() of the last one that it began
};

/// What is known of a rank.
struct RankStatus {
  enum Presence {
    Silent,   ///< it gave no answer, and nobody knows why
    Stopped,  ///< it gave no answer, but its process lives
    Here,     ///< it answered with its progress
    Left,     ///< it has left the group in good order, after this progress
    Ended,    ///< its process has ended, and it said nothing before
    GaveUp,   ///< it has left the group since it, or another of its groups, has failed
  };

  Presence presence = Silent;
  RankProgress progress;  ///< of Here, Left and GaveUp
  std::string reason{};   ///< of GaveUp, in one line
};

/// How long a rank that asks waits for answers where nobody is known to be gone.
struct Allowance {
  std::chrono::milliseconds for_one;   ///< where all others have answered: one rank may be lost
  std::chrono::milliseconds for_many;  ///< where more are silent, or one whose process lives: the machines are busy

  bool operator==(const Allowance&) const = default;
};

/// What suits a group in which each rank looks every `interval` whether somebody asks. Pure.
[[nodiscard]] Allowance allowance_of(std::chrono::milliseconds interval);

/// How long after the question an answer of `ranks` may still come; 0 where none is awaited. Pure.
[[nodiscard]] std::chrono::milliseconds patience(const std::vector<RankStatus>& ranks, const Allowance& allowance);

/// Whether an answer of this rank may still come.
[[nodiscard]] bool is_awaited(const RankStatus& rank);

[[nodiscard]] std::string serialise(const RankStatus& status);
[[nodiscard]] std::optional<RankStatus> parse_rank_status(const std::string& text);

/// Says who holds up collective `number`; `ranks` by rank, `names` are theirs: "rank 2 has not arrived: it is busy
/// elsewhere, and its last collective was all-reduce 40 (float32 [10], sum, 40 B)"; "rank 3 does not answer: it is
/// stopped or lost". Names at most eight ranks. Pure.
[[nodiscard]] std::string who_is_missing(std::uint64_t number, const std::vector<RankStatus>& ranks,
                                         const RankNames& names = {});

/// Says who will certainly never come to collective `number`: "rank 3 is lost: its process ended". Empty: nobody of
/// whom that is known. Names at most eight ranks. Pure.
[[nodiscard]] std::string who_is_gone(std::uint64_t number, const std::vector<RankStatus>& ranks,
                                      const RankNames& names = {});

// Which ranks are processes of this host. They find each other in the store, where each host has a list of its own:
// what a rank reads grows with the ranks of its host alone. Both throw what the store throws.

/// Writes this process down. Before the ranks connect, so that afterwards every list is complete.
void publish_process(c10d::Store& store, std::uint32_t rank);

/// Has `processes` watch the other ranks of this host that have been written down; none where that was not done.
void watch_host_peers(c10d::Store& store, std::uint32_t own_rank, ProcessWatch& processes);

/// The ranks of a group ask each other through its store where they are. Each says something at most a few times in its
/// life, so what is in the store of a rank is the last that it said. An instance per thread; copies share the store's
/// connection. Throws what the store throws.
///
/// Whether a silent rank's process has ended, so that it need not be waited for, or lives, so that it must, others of
/// its host see and write down for all.
class RankQuery {
 public:
  /// `processes`: of the step's ranks, by their numbers in it.
  RankQuery(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<const ProcessWatch> processes, std::uint32_t rank,
            std::uint32_t world_size, const RankNames& names = {})
      : store_(std::move(store)),
        processes_(std::move(processes)),
        rank_(rank),
        world_size_(world_size),
        names_(names) {}

  /// Whether somebody has asked.
  [[nodiscard]] bool is_asked() const;
  void answer(const RankProgress& progress) const;
  /// Says that this rank leaves in good order; the others know it before this returns.
  void leave(const RankProgress& progress) const;
  /// Says that this rank cannot go on, and why; likewise.
  void give_up(const RankProgress& progress, const std::string& reason) const;
  [[nodiscard]] bool has_left(std::uint32_t rank) const;

  /// Asks all ranks where they are in collective `number`; this one is where `own` says. Where `anybody_gone` will do,
  /// says only who_is_gone(), as soon as somebody is; else who_is_missing().
  [[nodiscard]] std::string ask(std::uint64_t number, const RankProgress& own, bool anybody_gone,
                                const Allowance& allowance) const;

 private:
  void write(std::uint32_t rank, const RankStatus& status) const;
  void write_last(const RankStatus& status) const;
  [[nodiscard]] std::optional<RankStatus> status_of(std::uint32_t rank) const;
  /// Whether this rank or, as they wrote down, another one of its host sees that the process of `rank` lives.
  [[nodiscard]] bool is_alive(std::uint32_t rank) const;
  /// What has become known of those that had given no answer.
  void complete(std::vector<RankStatus>& ranks) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<const ProcessWatch> processes_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  RankNames names_;
};

}  // namespace rollcall::process_group
