#include "trainer/tools/pack/journal.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "trainer/storage/crc.h"

namespace rollcall::pack {
namespace {

// Another number wherever the same files and options give other bytes: what was begun so is begun anew.
constexpr std::array<char, 8> kMagic{'r', 'c', 'p', 'a', 'c', 'k', '0', '2'};

/// Without holes, so that its checksum is one of its content.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t input_crc32c = 0;
  std::uint32_t crc32c = 0;  ///< of the members above
};
static_assert(std::has_unique_object_representations_v<Header>);

struct Record {
  std::uint32_t crc32c = 0;  ///< of the members below and the note
  std::uint32_t note_bytes = 0;
  std::int64_t source_bytes = 0;
  std::int64_t source_modified_ns = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t tile_count = 0;
  std::int32_t label = 0;
  std::uint32_t sample_crc32c = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t orientation = 1;
  std::uint16_t outcome = 0;
  std::uint16_t exit_code = 0;
};
static_assert(std::has_unique_object_representations_v<Record>);

template <typename Plain>
std::span<const std::byte> bytes_of(const Plain& plain) {
  return std::as_bytes(std::span(&plain, 1));
}

std::uint32_t checksum(const Header& header) {
  return storage::crc32c(bytes_of(header).first(offsetof(Header, crc32c)));
}

std::uint32_t checksum(const Record& record, std::span<const std::byte> note) {
  return storage::crc32c(note, storage::crc32c(bytes_of(record).subspan(sizeof(record.crc32c))));
}

JournalRecord unpacked(const Record& record, std::span<const std::byte> note) {
  JournalRecord result;
  result.outcome = static_cast<Outcome>(record.outcome);
  result.exit_code = static_cast<ExitCode>(record.exit_code);
  result.source = {record.source_bytes, record.source_modified_ns};
  result.entry = {.offset = record.offset,
                  .length = record.length,
                  .tile_count = record.tile_count,
                  .label = record.label,
                  .crc32c = record.sample_crc32c,
                  .width = record.width,
                  .height = record.height,
                  .orientation = static_cast<std::uint8_t>(record.orientation)};
  result.note.assign(reinterpret_cast<const char*>(note.data()), note.size());
  return result;
}

}  // namespace

std::uint64_t journal_header_bytes() { return sizeof(Header); }

std::vector<std::byte> journal_header(std::uint32_t input_crc32c) {
  Header header;
  header.input_crc32c = input_crc32c;
  header.crc32c = checksum(header);
  const auto bytes = bytes_of(header);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> journal_bytes(const JournalRecord& journal_record) {
  const data::PackedEntry& entry = journal_record.entry;
  const auto note = std::as_bytes(std::span(journal_record.note));
  Record record{.crc32c = 0,
                .note_bytes = static_cast<std::uint32_t>(note.size()),
                .source_bytes = journal_record.source.bytes,
                .source_modified_ns = journal_record.source.modified_ns,
                .offset = entry.offset,
                .length = entry.length,
                .tile_count = entry.tile_count,
                .label = entry.label,
                .sample_crc32c = entry.crc32c,
                .width = entry.width,
                .height = entry.height,
                .orientation = entry.orientation,
                .outcome = static_cast<std::uint16_t>(journal_record.outcome),
                .exit_code = static_cast<std::uint16_t>(journal_record.exit_code)};
  record.crc32c = checksum(record, note);
  std::vector<std::byte> bytes(sizeof(record) + note.size());
  std::memcpy(bytes.data(), &record, sizeof(record));
  std::copy(note.begin(), note.end(), bytes.begin() + sizeof(record));
  return bytes;
}

std::optional<ReadJournal> read_journal(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic || header.crc32c != checksum(header)) {
    return std::nullopt;
  }
  ReadJournal journal{.input_crc32c = header.input_crc32c, .records = {}, .ends = {}};
  std::size_t at = sizeof(header);
  while (bytes.size() - at >= sizeof(Record)) {
    Record record;
    std::memcpy(&record, bytes.data() + at, sizeof(record));
    const auto rest = bytes.subspan(at + sizeof(record));
    if (record.note_bytes > rest.size() || record.crc32c != checksum(record, rest.first(record.note_bytes))) {
      break;
    }
    journal.records.push_back(unpacked(record, rest.first(record.note_bytes)));
    at += sizeof(record) + record.note_bytes;
    journal.ends.push_back(at);
  }
  return journal;
}

}  // namespace rollcall::pack
