#include "trainer/distributed/watchdog/captured_collectives.h"

#include <c10/core/Event.h>

#include <mutex>
#include <utility>

#include "trainer/streams.h"

namespace rollcall::process_group {
namespace {

std::mutex mutex;
CapturedCollectives* under_way = nullptr;  ///< guarded by mutex

void set_under_way(CapturedCollectives* these) {
  const std::lock_guard lock(mutex);
  under_way = these;
}

/// The work that a stream has so far.
class Replay final : public c10d::Work {
 public:
  explicit Replay(c10::Stream stream) : end_(stream.device_type()) { end_.record(stream); }
  bool isCompleted() override { return end_.query(); }

 private:
  c10::Event end_;
};

}  // namespace

void CapturedCollectives::capture(const std::function<void()>& issue) {
  groups_.clear();
  set_under_way(this);
  try {
    issue();
  } catch (...) {
    set_under_way(nullptr);
    throw;
  }
  set_under_way(nullptr);
}

bool CapturedCollectives::add(const c10d::Backend& backend, const Watch& watch) {
  const std::lock_guard lock(mutex);
  if (under_way != nullptr) {
    under_way->groups_.emplace(&backend, watch);
  }
  return under_way != nullptr;
}

void CapturedCollectives::replayed(c10::Device device, std::chrono::duration<double> own) {
  while (!replays_.empty() && replays_.front().use_count() == 1) {
    replays_.pop_front();
  }
  if (groups_.empty()) {
    return;
  }
  replays_.push_back(c10::make_intrusive<Replay>(current_stream(device)));
  for (const auto& [backend, watch] : groups_) {
    watch(replays_.back(), own);
  }
}

}  // namespace rollcall::process_group
