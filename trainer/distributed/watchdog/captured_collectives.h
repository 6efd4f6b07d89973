#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace rollcall::process_group {

/// The collectives of a captured graph (device::Plugin::capture). They run each time the graph is launched, which is
/// then watched as one collective of each group that has some in it. During the capture nothing is watched. For one
/// thread, though other threads may issue captured collectives.
class CapturedCollectives {
 public:
  /// Watches a replay on the device, which takes `own` without waiting for other ranks.
  using Watch = std::function<void(const c10::intrusive_ptr<c10d::Work>& replay, std::chrono::duration<double> own)>;

  /// Calls `issue`, and takes all collectives issued meanwhile, on any thread, for the graph's. One call at a time in a
  /// process. Throws what `issue` throws.
  void capture(const std::function<void()>& issue);
  /// Records that the graph was launched on the current stream of `device`. All of it takes `own` without waiting for
  /// other ranks. Throws CollectiveFailure if the device can no longer run collectives.
  void replayed(c10::Device device, std::chrono::duration<double> own);

  /// Returns whether a collective that was just issued to `backend` is captured. If so, `watch` is called for each
  /// replay.
  [[nodiscard]] static bool add(const c10d::Backend& backend, const Watch& watch);

 private:
  std::map<const c10d::Backend*, Watch> groups_;
  /// The watched replays. This thread releases them: releasing a device's event sets and restores the thread's current
  /// device, which on a thread without one initialises device 0 and takes memory there.
  std::deque<c10::intrusive_ptr<c10d::Work>> replays_;
};

}  // namespace rollcall::process_group
