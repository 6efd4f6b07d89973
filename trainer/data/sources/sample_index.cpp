#include "trainer/data/sources/sample_index.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/storage/crc.h"

namespace rollcall::data {
namespace {

using nlohmann::json;

/// The header of the memory. Entries, names and About (as MessagePack, since file names are arbitrary bytes) follow.
struct Header {
  std::array<char, 8> magic;
  std::uint32_t crc32c;  ///< of all that follows the header
  std::uint32_t unused;
  std::uint64_t entries;
  std::uint64_t name_bytes;
  std::uint64_t about_bytes;
};

/// The last digit changes with the meaning of the bytes and with the rules for indexing sources.
constexpr std::array<char, 8> kMagic{'R', 'C', 'I', 'N', 'D', 'E', 'X', '3'};

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

std::vector<std::uint8_t> packed(const SampleIndex::About& about) {
  json stamps = json::array();
  for (const FileStamp& stamp : about.stamps) {
    stamps.push_back({stamp.path, stamp.bytes, stamp.modified, stamp.changed, stamp.inode, stamp.entries});
  }
  return json::to_msgpack(json{
      {"source", about.source}, {"classes", about.class_names}, {"witnesses", stamps}, {"warning", about.warning}});
}

std::optional<SampleIndex::About> unpacked(std::span<const std::byte> bytes) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const json object = json::from_msgpack(begin, begin + bytes.size(), /*strict=*/true, /*allow_exceptions=*/false);
  try {
    SampleIndex::About about{.source = object.at("source"),
                             .class_names = object.at("classes"),
                             .stamps = {},
                             .warning = object.at("warning")};
    for (const json& stamp : object.at("witnesses")) {
      about.stamps.push_back({stamp.at(0), stamp.at(1), stamp.at(2), stamp.at(3), stamp.at(4), stamp.at(5)});
    }
    return about;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

void put(std::span<std::byte>& place, const void* bytes, std::size_t size) {
  if (size > 0) {
    std::memcpy(place.data(), bytes, size);
    place = place.subspan(size);
  }
}

std::string_view name_of(std::string_view names, std::span<const SampleIndex::Entry> entries, std::size_t i) {
  const std::uint64_t begin = i == 0 ? 0 : entries[i - 1].name_end;
  return names.substr(begin, entries[i].name_end - begin);
}

/// Returns whether a change of the folder may leave its times unchanged: images of file systems are often made with one
/// time for everything, and file systems behind FUSE need not have any.
bool times_say_nothing(const std::string& folder, const struct stat& facts) {
  constexpr auto kFuse = 0x65735546;
  constexpr auto kSquashfs = 0x73717368;
  struct statfs system {};
  return facts.st_mtim.tv_sec == 0 ||
         (::statfs(folder.c_str(), &system) == 0 && (system.f_type == kFuse || system.f_type == kSquashfs));
}

std::int64_t entry_count(const std::string& folder) {
  DIR* const opened = ::opendir(folder.c_str());
  if (opened == nullptr) {
    return -1;
  }
  std::int64_t entries = 0;
  while (::readdir(opened) != nullptr) {
    entries += 1;
  }
  ::closedir(opened);
  return entries;
}

FileStamp stamp_from(const std::string& path, const struct stat& facts) {
  FileStamp stamp{path, facts.st_size, nanoseconds(facts.st_mtim), nanoseconds(facts.st_ctim), facts.st_ino, -1};
  if (S_ISDIR(facts.st_mode) && times_say_nothing(path, facts)) {
    stamp.entries = entry_count(path);
  }
  return stamp;
}

}  // namespace

FileStamp file_stamp(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? stamp_from(path, facts) : FileStamp{.path = path};
}

FileStamp file_stamp(const std::string& path, int descriptor) {
  struct stat facts {};
  return ::fstat(descriptor, &facts) == 0 ? stamp_from(path, facts) : FileStamp{.path = path};
}

std::int64_t checksum_of_names(const std::vector<std::string>& names) {
  std::uint32_t checksum = 0;
  for (const std::string& name : names) {  // c_str(): includes the NUL
    checksum = storage::crc32c(std::as_bytes(std::span(name.c_str(), name.size() + 1)), checksum);
  }
  return checksum;
}

DataIdentity SampleIndex::identity() const {
  std::uint32_t labels = 0;
  for (const Entry& entry : entries_) {
    labels = storage::crc32c(std::as_bytes(std::span(&entry.label, 1)), labels);
  }
  return {.images = size(),
          .class_names = checksum_of_names(about_->class_names),
          .labels = labels,
          .picture_names = storage::crc32c(std::as_bytes(std::span(names_)))};
}

std::int64_t SampleIndex::checksum_of_shards() const {
  std::uint32_t shards = 0;
  for (const Entry& entry : entries_) {
    shards = storage::crc32c(std::as_bytes(std::span(&entry.shard, 1)), shards);
  }
  return shards;
}

std::optional<SampleIndex> SampleIndex::from(storage::SharedMemory memory) {
  const std::span<const std::byte> bytes = memory.bytes();
  Header header{};
  if (bytes.size() < sizeof header) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::span<const std::byte> rest = bytes.subspan(sizeof header);
  const std::uint64_t entry_bytes = rest.size() - std::min<std::uint64_t>(rest.size(), header.name_bytes) -
                                    std::min<std::uint64_t>(rest.size(), header.about_bytes);
  if (header.magic != kMagic || header.name_bytes > rest.size() || header.about_bytes > rest.size() ||
      header.entries > rest.size() / sizeof(Entry) || header.entries * sizeof(Entry) != entry_bytes ||
      storage::crc32c(rest) != header.crc32c) {
    return std::nullopt;
  }
  std::optional<About> about = unpacked(rest.last(header.about_bytes));
  if (!about) {
    return std::nullopt;
  }
  SampleIndex index;
  index.entries_ = {reinterpret_cast<const Entry*>(rest.data()), header.entries};
  index.names_ = {reinterpret_cast<const char*>(rest.data()) + entry_bytes, header.name_bytes};
  std::uint64_t name_begin = 0;
  for (const Entry& entry : index.entries_) {
    if (entry.name_end < name_begin || entry.name_end > header.name_bytes || entry.label >= about->class_names.size()) {
      return std::nullopt;
    }
    name_begin = entry.name_end;
  }
  index.about_ = std::make_shared<About>(*std::move(about));
  index.memory_ = std::make_shared<storage::SharedMemory>(std::move(memory));
  return index;
}

std::string_view SampleIndex::name(std::int64_t i) const {
  return name_of(names_, entries_, static_cast<std::size_t>(i));
}

std::string_view SampleIndexBuilder::name(std::size_t i) const { return name_of(names_, entries_, i); }

void SampleIndexBuilder::add(SampleIndex::Entry entry, std::string_view name) {
  names_ += name;
  entry.name_end = names_.size();
  entries_.push_back(entry);
}

void SampleIndexBuilder::append(const SampleIndexBuilder& other) {
  const std::uint64_t before = names_.size();
  names_ += other.names_;
  for (SampleIndex::Entry entry : other.entries_) {
    entry.name_end += before;
    entries_.push_back(entry);
  }
}

Result<SampleIndex> SampleIndexBuilder::finish(const SampleIndex::About& about) const {
  const std::vector<std::uint8_t> packed_about = packed(about);
  Header header{.magic = kMagic,
                .crc32c = 0,
                .unused = 0,
                .entries = entries_.size(),
                .name_bytes = names_.size(),
                .about_bytes = packed_about.size()};
  auto memory = storage::SharedMemory::make(sizeof header + entries_.size() * sizeof(SampleIndex::Entry) +
                                            names_.size() + packed_about.size());
  if (!memory) {
    return fail("--data", about.source, "its index cannot be held in memory: " + errno_text(errno),
                "giving the task more memory", ErrorKind::Unavailable);
  }
  std::span<std::byte> rest = memory->writable().subspan(sizeof header);
  put(rest, entries_.data(), entries_.size() * sizeof(SampleIndex::Entry));
  put(rest, names_.data(), names_.size());
  put(rest, packed_about.data(), packed_about.size());
  header.crc32c = storage::crc32c(memory->bytes().subspan(sizeof header));
  std::span<std::byte> first = memory->writable();
  put(first, &header, sizeof header);
  std::optional<SampleIndex> index = SampleIndex::from(*std::move(memory));
  if (!index) {
    return fail("--data", about.source, "its index is inconsistent", "reporting this: it is a bug",
                ErrorKind::Internal);
  }
  return *std::move(index);
}

}  // namespace rollcall::data
