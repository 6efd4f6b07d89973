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

#include "trainer/distributed/process_group/attendance.h"
#include "trainer/distributed/processes/process_watch.h"
#include "trainer/distributed/processes/rank_names.h"

namespace rollcall::process_group {

/// The ranks of a group ask each other through its store where they are. Each says something at most a few times in its
/// life, so what is in the store of a rank is the last that it said. An instance per thread; copies share the store's
/// connection. Throws what the store throws.
///
/// Whether a silent rank's process has ended, so that it need not be waited for, or lives, so that it must, others of
/// its host see and write down for all.
class RollCall {
 public:
  RollCall(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<const ProcessWatch> host_peers, std::uint32_t rank,
           std::uint32_t world_size, const RankNames& names = {})
      : store_(std::move(store)),
        host_peers_(std::move(host_peers)),
        rank_(rank),
        world_size_(world_size),
        names_(names) {}

  /// Whether somebody has asked.
  [[nodiscard]] bool is_called() const;
  void answer(const Whereabouts& whereabouts) const;
  /// Says that this rank leaves in good order; the others know it before this returns.
  void leave(const Whereabouts& whereabouts) const;
  /// Says that this rank cannot go on, and why; likewise.
  void give_up(const Whereabouts& whereabouts, const std::string& reason) const;
  [[nodiscard]] bool has_left(std::uint32_t rank) const;

  /// Asks all ranks where they are in collective `number`; this one is where `own` says. Where `anybody_gone` will do,
  /// says only who_is_gone(), as soon as somebody is; else who_is_missing().
  [[nodiscard]] std::string ask(std::uint64_t number, const Whereabouts& own, bool anybody_gone,
                                const Allowance& allowance) const;

 private:
  void say(std::uint32_t rank, const Attendance& attendance) const;
  void say_last(const Attendance& attendance) const;
  [[nodiscard]] std::optional<Attendance> word_of(std::uint32_t rank) const;
  /// Whether this rank or, as they wrote down, another one of its host sees that the process of `rank` lives.
  [[nodiscard]] bool is_alive(std::uint32_t rank) const;
  /// What has become known of those that had given no answer.
  void complete(std::vector<Attendance>& ranks) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<const ProcessWatch> host_peers_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  RankNames names_;
};

}  // namespace rollcall::process_group
