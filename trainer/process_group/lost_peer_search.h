#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/process_group/outcome.h"

namespace rollcall::process_group {

/// Ends collectives that wait for a lost peer although their back end does not say so. Gloo of LibTorch 2.15 is one: it
/// tells a closed connection to operations that wait for a message, not to one that had part of it, which then waits
/// until its timeout (Pair::signalException of gloo/transport/tcp knows neither rx_ nor a send's ubuf). So connections
/// are looked at where a collective takes longer than a second: a lost peer's is closed.
///
/// Thread-safe.
class LostPeerSearch {
 public:
  /// `broken_peers` returns the ranks whose connections are closed.
  explicit LostPeerSearch(std::function<std::vector<std::uint32_t>()> broken_peers)
      : broken_peers_(std::move(broken_peers)) {}

  void add(const std::shared_ptr<Outcome>& outcome);

  /// To be called now and then. `store` says who left in good order, and need not be waited for.
  void look(const c10::intrusive_ptr<c10d::Store>& store);

  /// Looks at connections no more: `broken_peers` is not called any longer once this returns.
  void forget_connections();

  /// To be called by a rank that leaves without having met a failure.
  static void tell_that_it_leaves(c10d::Store& store, std::uint32_t rank);

 private:
  [[nodiscard]] std::vector<std::shared_ptr<Outcome>> overdue();
  [[nodiscard]] std::optional<std::uint32_t> find(const c10::intrusive_ptr<c10d::Store>& store);
  [[nodiscard]] std::vector<std::uint32_t> broken_peers();

  std::mutex connections_;
  std::function<std::vector<std::uint32_t>()> broken_peers_;  ///< guarded by connections_
  std::mutex mutex_;
  std::vector<std::weak_ptr<Outcome>> waiting_;  ///< guarded by mutex_
  // Of the thread that looks.
  std::chrono::seconds next_age_{1};  ///< of the oldest collective at the next look at connections
  std::optional<std::uint32_t> lost_;
};

}  // namespace rollcall::process_group
