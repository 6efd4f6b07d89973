#ifdef ROLLCALL_UCX
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "trainer/process_group/backends.h"
#include "trainer/process_group/engine/c10d/backend.h"
#include "trainer/process_group/ucx/connect.h"

namespace rollcall::process_group {
namespace {

std::string key_of(int rank) { return "address/" + std::to_string(rank); }

/// Everybody's record by way of the store, whose errors it throws.
std::vector<std::string> exchange(c10d::Store& store, int rank, int size, const std::string& mine) {
  store.set(key_of(rank), std::vector<std::uint8_t>(mine.begin(), mine.end()));
  std::vector<std::string> all;
  for (int other = 0; other < size; ++other) {
    const std::vector<std::uint8_t> record = store.get(key_of(other));
    all.emplace_back(record.begin(), record.end());
  }
  return all;
}

}  // namespace

void add_ucx(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
             std::chrono::milliseconds timeout) {
  const int rank = group.getRank();
  const int size = group.getSize();
  const auto own = c10::make_intrusive<c10d::PrefixStore>("ucx", store);
  Result<std::unique_ptr<ucx::Engine>> engine = ucx::connect(
      static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size),
      [&](const std::string& mine) -> Result<std::vector<std::string>> { return exchange(*own, rank, size, mine); },
      timeout);
  TORCH_CHECK(engine.has_value(), engine.error().reason);
  group.setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                   c10::intrusive_ptr<c10d::Backend>(
                       c10::make_intrusive<EngineBackend>("ucx", std::move(*engine), rank, size, timeout)));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
}

}  // namespace rollcall::process_group
#endif
