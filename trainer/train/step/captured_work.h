#pragma once

#include <chrono>
#include <functional>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What a training gives its device in each step alike, as a graph (--cuda-graph): captured once, and given to the
/// device as a whole from then on, which spares the host a launch for each kernel. Its collectives are watched.
///
/// The calling thread's current stream is not the device's default one. Collective: every rank does the same. Main
/// thread only.
class CapturedWork {
 public:
  /// `world` outlives it, and its device has graphs.
  explicit CapturedWork(const World& world) : world_(world) {}

  /// Has the device do what `work` enqueues, which is called the first time only: it reads and writes the same tensors
  /// each time, and waits for nothing on the host. Throws what LibTorch throws.
  /// `own`: how long it takes where no rank is waited for.
  void enqueue(const std::function<void()>& work, std::chrono::duration<double> own = {});

 private:
  void capture(const std::function<void()>& work);

  const World& world_;
  std::function<void()> replay_;  ///< empty: nothing was captured
  process_group::CapturedCollectives collectives_;
};

}  // namespace rollcall::train
