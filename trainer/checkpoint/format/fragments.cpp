#include "trainer/checkpoint/format/fragments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "trainer/storage/crc32c.h"

namespace rollcall::checkpoint::format {
namespace {

std::uint64_t piece_of(const Fragment& fragment) { return fragment.first_byte / kPieceBytes; }

bool continues(const Fragment& before, const Fragment& next) {
  return before.dataset == next.dataset && before.first_byte + before.bytes == next.first_byte &&
         piece_of(before) == piece_of(next);
}

/// One data set's checksums from its fragments, which are joined and sorted.
std::string set_checksums_of(ManifestEntry& entry, std::span<const Fragment> fragments) {
  std::uint64_t written = 0;
  entry.crc32c = 0;
  for (const Fragment& fragment : fragments) {
    if (fragment.first_byte != written || fragment.bytes > entry.bytes - written) {
      break;
    }
    entry.crc32c = storage::crc32c_combine(entry.crc32c, fragment.crc32c, fragment.bytes);
    entry.pieces.push_back(fragment.crc32c);
    written += fragment.bytes;
  }
  const std::uint64_t pieces = (entry.bytes + kPieceBytes - 1) / kPieceBytes;
  if (written != entry.bytes || fragments.size() != pieces) {
    return fmt::format("{}: byte {} was written by no rank or by two", entry.name, written);
  }
  if (pieces <= 1) {
    entry.pieces.clear();
  }
  return "";
}

}  // namespace

void sum_up(std::vector<Fragment>& fragments, std::uint64_t dataset, std::uint64_t first_byte,
            std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t rest_of_piece = kPieceBytes - first_byte % kPieceBytes;
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), rest_of_piece));
    fragments.push_back({dataset, first_byte, part.size(), storage::crc32c(part)});
    bytes = bytes.subspan(part.size());
    first_byte += part.size();
  }
}

void join(std::vector<Fragment>& fragments) {
  std::sort(fragments.begin(), fragments.end(), [](const Fragment& a, const Fragment& b) {
    return std::tie(a.dataset, a.first_byte) < std::tie(b.dataset, b.first_byte);
  });
  std::vector<Fragment> joined;
  for (const Fragment& fragment : fragments) {
    if (!joined.empty() && continues(joined.back(), fragment)) {
      Fragment& before = joined.back();
      before.crc32c = storage::crc32c_combine(before.crc32c, fragment.crc32c, fragment.bytes);
      before.bytes += fragment.bytes;
    } else {
      joined.push_back(fragment);
    }
  }
  fragments = std::move(joined);
}

std::vector<std::byte> to_bytes(const std::vector<Fragment>& fragments) {
  const auto bytes = std::as_bytes(std::span(fragments));
  return {bytes.begin(), bytes.end()};
}

std::optional<std::vector<Fragment>> fragments_from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(Fragment) != 0) {
    return std::nullopt;
  }
  std::vector<Fragment> fragments(bytes.size() / sizeof(Fragment));
  if (!bytes.empty()) {
    std::memcpy(fragments.data(), bytes.data(), bytes.size());
  }
  return fragments;
}

std::string set_checksums(std::vector<ManifestEntry>& datasets, std::vector<Fragment> fragments) {
  join(fragments);
  auto next = fragments.begin();
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const auto end = std::find_if(next, fragments.end(), [i](const Fragment& f) { return f.dataset != i; });
    if (std::string problem = set_checksums_of(datasets[i], std::span(next, end)); !problem.empty()) {
      return problem;
    }
    next = end;
  }
  return next == fragments.end() ? "" : "a rank wrote a data set that does not exist";
}

}  // namespace rollcall::checkpoint::format
