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

/// The collectives of a graph (device::Plugin::capture). While they are captured there is nothing to be waited for;
/// they are carried each time the device is given the graph, which is watched then as one collective of each group that
/// has some in it. One thread's, though others may issue what is captured.
class CapturedCollectives {
 public:
  /// Sees that the device has come to the end of a replay, which takes `own` where nobody is waited for.
  using Watch = std::function<void(const c10::intrusive_ptr<c10d::Work>& replay, std::chrono::duration<double> own)>;

  /// Collectives that `issue` has any thread issue belong to the graph. One at a time in a process. Throws what `issue`
  /// throws.
  void capture(const std::function<void()>& issue);
  /// The current stream of `device` was given the graph, of which all takes `own` where no rank is waited for. Throws
  /// CollectiveFailure where the device carries collectives no more.
  void replayed(c10::Device device, std::chrono::duration<double> own);

  /// For a group's backend that was given a collective: whether it is captured. `watch` is called for each replay.
  [[nodiscard]] static bool add(const c10d::Backend& backend, const Watch& watch);

 private:
  std::map<const c10d::Backend*, Watch> groups_;
  /// What is watched, and let go of by this thread: who lets go of a device's event makes that device its thread's, and
  /// puts back the one before, which on a thread of no device is the first one, with memory taken there.
  std::deque<c10::intrusive_ptr<c10d::Work>> replays_;
};

}  // namespace rollcall::process_group
