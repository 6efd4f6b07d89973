#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/distributed/processes/processes.h"
#include "trainer/distributed/watchdog/watched_collective.h"

namespace rollcall::process_group {

/// Ends collectives that wait for a lost peer although their backend does not say so. Gloo of LibTorch 2.15 is one: it
/// tells a closed connection to operations that wait for a message, not to one that had part of it, which then waits
/// until its timeout (Pair::signalException of gloo/transport/tcp knows neither rx_ nor a send's ubuf). A peer is lost
/// whose process is known to have ended and, where a collective takes longer than a second, whose connection is closed;
/// unless it left in good order. Where somebody else says that ranks are lost, a second later.
///
/// Thread-safe, but for process_ended(), ranks_are_lost() and look(), which one thread calls.
class LostPeerSearch {
 public:
  /// What came from a peer before its process ended has been read by then, where no connection has to carry it.
  static constexpr std::chrono::milliseconds kAfterAnEnd{100};

  /// Whether a rank said that it leaves in good order; nothing where nobody can tell. Need not be waited for.
  using HasLeft = std::function<std::optional<bool>(std::uint32_t rank)>;

  /// `broken_peers` returns the ranks whose connections are closed.
  explicit LostPeerSearch(std::function<std::vector<std::uint32_t>()> broken_peers, const RankNames& names = {})
      : names_(names), broken_peers_(std::move(broken_peers)) {}

  void add(const std::shared_ptr<WatchedCollective>& collective);

  /// To be called when the process of `peer` has ended, and then look() after kAfterAnEnd.
  void process_ended(std::uint32_t peer, const HasLeft& has_left, WatchedCollective::Clock::time_point now);

  /// To be called once somebody else has said that ranks are lost, and look() from then on: they may be on a node that
  /// fell silent, and whose connections stay.
  void ranks_are_lost(WatchedCollective::Clock::time_point now);

  /// To be called now and then.
  void look(const HasLeft& has_left, WatchedCollective::Clock::time_point now);

  /// Looks at connections no more: `broken_peers` is not called any longer once this returns.
  void forget_connections();

 private:
  struct Lost {
    std::string what;
    WatchedCollective::Clock::time_point since;
    std::chrono::milliseconds patience;  ///< with collectives under way: since then, and since each began
    bool told = false;                   ///< by somebody else: no rank is asked
  };

  /// Those that began at least `age` ago, the oldest first.
  [[nodiscard]] std::vector<std::shared_ptr<WatchedCollective>> waiting_for(std::chrono::milliseconds age,
                                                                            WatchedCollective::Clock::time_point now);
  void search_connections(const HasLeft& has_left, WatchedCollective::Clock::time_point now);
  [[nodiscard]] std::vector<std::uint32_t> broken_peers();

  const RankNames names_;
  std::mutex connections_;
  std::function<std::vector<std::uint32_t>()> broken_peers_;  ///< guarded by connections_
  std::mutex mutex_;
  std::vector<std::weak_ptr<WatchedCollective>> waiting_;  ///< guarded by mutex_
  // Of the thread that looks.
  std::chrono::seconds pause_{1};                     ///< between the next look at connections and the one after it
  WatchedCollective::Clock::time_point next_look_{};  ///< at connections
  std::optional<Lost> lost_;
};

}  // namespace rollcall::process_group
