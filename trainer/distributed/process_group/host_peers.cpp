#include "trainer/distributed/process_group/host_peers.h"

#include <optional>
#include <string>

#include "runtime/base/text.h"
#include "trainer/distributed/processes/process_identity.h"

namespace rollcall::process_group {
namespace {

std::string count_key() { return "processes of " + process_space(); }
std::string entry_key(std::int64_t number) { return count_key() + "/" + std::to_string(number); }

struct Entry {
  std::uint32_t rank = 0;
  std::string identity;
};

std::string serialise(const Entry& entry) { return std::to_string(entry.rank) + "\n" + entry.identity; }

std::optional<Entry> parse_entry(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  const auto rank = parse_integer<std::uint32_t>(lines.empty() ? "" : lines[0]);
  return rank && lines.size() == 2 ? std::optional(Entry{*rank, lines[1]}) : std::nullopt;
}

}  // namespace

void publish_process(c10d::Store& store, std::uint32_t rank) {
  if (const std::string identity = process_identity(); !identity.empty()) {
    store.set(entry_key(store.add(count_key(), 1)), serialise(Entry{rank, identity}));
  }
}

std::shared_ptr<ProcessWatch> watch_host_peers(c10d::Store& store, std::uint32_t own_rank) {
  auto watch = std::make_shared<ProcessWatch>();
  const std::int64_t entries = process_space().empty() ? 0 : store.add(count_key(), 0);
  for (std::int64_t number = 1; number <= entries; ++number) {
    const std::optional<Entry> entry = parse_entry(store.get_to_str(entry_key(number)));
    if (entry && entry->rank != own_rank) {
      watch->add(entry->rank, entry->identity);
    }
  }
  return watch;
}

}  // namespace rollcall::process_group
