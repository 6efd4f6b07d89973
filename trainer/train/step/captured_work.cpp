#include "trainer/train/step/captured_work.h"

#include <c10/util/Exception.h>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/streams.h"

namespace rollcall::train {

void CapturedWork::enqueue(const std::function<void()>& work, std::chrono::duration<double> own) {
  if (!replay_) {
    capture(work);
  }
  replay_();
  collectives_.replayed(world_.device.device(), own);
}

void CapturedWork::capture(const std::function<void()>& work) {
  current_stream(world_.device.device()).synchronize();  // what failed before is no failure of the capture
  try {
    replay_ = world_.device.plugin()->capture([&] { collectives_.capture(work); });
  } catch (const c10::OutOfMemoryError& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.msg(), " (with --cuda-graph=off a step takes less)");
  } catch (const c10::DistError&) {  // a rank was lost meanwhile
    throw;
  } catch (const c10::Error& error) {
    if (const auto failure = process_group::failure_of_device(error);
        failure && process_group::is_of_device(*failure)) {
      throw;
    }
    TORCH_CHECK(false, "a step cannot be captured (--cuda-graph=off computes without): ", error.msg());
  }
}

}  // namespace rollcall::train
