#include "trainer/distributed/process_group/store_exchange.h"

#include <cstdint>
#include <utility>

namespace rollcall::process_group {
namespace {

std::string key_of(int rank) { return "address/" + std::to_string(rank); }

}  // namespace

Exchange exchange_over(c10::intrusive_ptr<c10d::Store> store, int rank, int size) {
  return [store = std::move(store), rank, size](const std::string& mine) -> Result<std::vector<std::string>> {
    store->set(key_of(rank), std::vector<std::uint8_t>(mine.begin(), mine.end()));
    std::vector<std::string> all;
    for (int other = 0; other < size; ++other) {
      const std::vector<std::uint8_t> record = store->get(key_of(other));
      all.emplace_back(record.begin(), record.end());
    }
    return all;
  };
}

}  // namespace rollcall::process_group
