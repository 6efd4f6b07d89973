#include "trainer/tools/pack/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "runtime/base/owned_file.h"
#include "trainer/data/sources/packed_file.h"
#include "trainer/storage/crc.h"

namespace rollcall::pack {
namespace {

// Change this number whenever the same files and options give other bytes, or a record has another meaning: partial
// files of the old kind are then started anew.
constexpr std::array<char, 8> kMagic{'r', 'c', 'p', 'a', 'c', 'k', '0', '3'};

/// Has no padding, so that its checksum depends only on its content.
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
  std::uint16_t error_kind = 0;
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
  result.kind = error_kind(record.error_kind).value_or(ErrorKind::Internal);
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
                .error_kind = static_cast<std::uint16_t>(journal_record.kind)};
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

namespace {

using data::packed_schema::kDataStart;

/// Opens only files of this user: both names are easily guessed, and existing files are truncated and overwritten.
Result<storage::File> open_part(const std::string& path) {
  const OpenedOutput opened = open_output(path, O_RDWR);
  if (opened.descriptor < 0) {
    return fail("OUT", path, "cannot be created: " + opened.reason,
                what_to_try(opened.error_number, "naming a new file in an existing folder"), ErrorKind::CannotCreate);
  }
  return storage::File(opened.descriptor);
}

/// Locks the file. File systems without locks are accepted.
bool locked_by_another(const storage::File& file) {
  return ::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/// Returns how many of the records follow one another as this program writes them.
std::size_t count_connected(const std::vector<JournalRecord>& records) {
  std::uint64_t end = 0;
  std::size_t count = 0;
  for (const JournalRecord& record : records) {
    if (record.entry.offset != end) {
      break;
    }
    end += record.entry.stored_bytes();
    ++count;
  }
  return count;
}

}  // namespace

Error PartialFile::cannot_write(const std::string& path, int error_number) const {
  return fail(
      "OUT", path, "cannot be written: " + errno_text(error_number),
      what_to_try(error_number, "checking that file system") + ", then running the same command again to continue",
      ErrorKind::InputOutput);
}

Result<PartialFile> PartialFile::open(const std::string& out, std::uint32_t input_crc32c, bool discard) {
  PartialFile partial;
  partial.out_ = out;
  partial.data_path_ = out + ".partial";
  partial.journal_path_ = out + ".partial.journal";
  ASSIGN_OR_RETURN(storage::File data, open_part(partial.data_path_));
  partial.data_ = std::move(data);
  if (locked_by_another(partial.data_)) {
    return fail("OUT", partial.data_path_, "is being written by another process",
                "waiting until it ends, or choosing another output file", ErrorKind::CannotCreate);
  }
  ASSIGN_OR_RETURN(storage::File journal, open_part(partial.journal_path_));
  partial.journal_ = std::move(journal);
  RETURN_IF_ERROR(partial.load(input_crc32c, discard));
  return partial;
}

Result<void> PartialFile::load(std::uint32_t input_crc32c, bool discard) {
  const auto size = journal_.regular_size();
  std::vector<std::byte> bytes(size.value_or(0));
  if (!size || journal_.read_at(bytes, 0) != bytes.size()) {
    return cannot_write(journal_path_, errno);
  }
  std::optional<ReadJournal> journal = read_journal(bytes);
  const bool is_other_work = journal && journal->input_crc32c != input_crc32c;
  if (!journal || (discard && is_other_work)) {
    return start_anew(input_crc32c);
  }
  if (is_other_work) {
    return fail(
        "OUT", data_path_, "was started with other options or other files",
        fmt::format("using the earlier options, or --overwrite to start anew (removes {})", partial_files(out_)),
        ErrorKind::Mismatch);
  }
  records_ = std::move(journal->records);
  journal_ends_ = std::move(journal->ends);
  return keep(count_connected(records_));
}

Result<void> PartialFile::start_anew(std::uint32_t input_crc32c) {
  // Truncate the journal first: without records the data is ignored.
  const bool emptied = ::ftruncate(journal_.descriptor(), 0) == 0 && ::ftruncate(data_.descriptor(), 0) == 0 &&
                       journal_.write_at(journal_header(input_crc32c), 0);
  return emptied ? Result<void>() : cannot_write(journal_path_, errno);
}

Result<void> PartialFile::keep(std::size_t count) {
  records_.resize(std::min(count, records_.size()));
  journal_ends_.resize(records_.size());
  const std::uint64_t journal_end = journal_ends_.empty() ? journal_header_bytes() : journal_ends_.back();
  data_bytes_ = records_.empty() ? 0 : records_.back().entry.offset + records_.back().entry.stored_bytes();
  if (::ftruncate(journal_.descriptor(), static_cast<off_t>(journal_end)) != 0) {
    return cannot_write(journal_path_, errno);
  }
  return {};
}

Result<void> PartialFile::append(const PreparedSample& sample) {
  JournalRecord record{.outcome = sample.outcome,
                       .kind = sample.kind,
                       .source = sample.source,
                       .entry = sample.entry,
                       .note = sample.note};
  record.entry.offset = data_bytes_;
  if (!data_.write_at(sample.stored, kDataStart + data_bytes_)) {
    return cannot_write(data_path_, errno);
  }
  const std::vector<std::byte> bytes = journal_bytes(record);
  const std::uint64_t end = journal_ends_.empty() ? journal_header_bytes() : journal_ends_.back();
  if (!journal_.write_at(bytes, end)) {
    return cannot_write(journal_path_, errno);
  }
  data_bytes_ += record.entry.stored_bytes();
  journal_ends_.push_back(end + bytes.size());
  records_.push_back(std::move(record));
  return {};
}

bool PartialFile::is_sound(std::size_t index, std::vector<std::byte>& buffer) const {
  const data::PackedEntry& entry = records_[index].entry;
  const auto bytes = static_cast<std::size_t>(entry.stored_bytes());
  if (buffer.size() < bytes) {
    buffer.resize(bytes);
  }
  const auto stored = std::span(buffer).first(bytes);
  return data_.read_at(stored, kDataStart + entry.offset) == bytes && storage::crc32c(stored) == entry.crc32c;
}

Result<void> PartialFile::sync() { return data_.sync() ? Result<void>() : cannot_write(data_path_, errno); }

Result<void> PartialFile::finish(const data::PackedContent& content) {
  RETURN_IF_ERROR(data::finish_packed_file(data_path_, content));
  const Result<data::PackedFile> file = data::PackedFile::open(data_path_);
  if (!file) {
    return fail("OUT", out_, "is not as it was written: " + file.error().reason,
                "running the same command again, or writing to another file system", ErrorKind::InputOutput);
  }
  if (std::rename(data_path_.c_str(), out_.c_str()) != 0 || !storage::sync_folder_of(out_)) {
    return cannot_write(out_, errno);
  }
  ::unlink(journal_path_.c_str());
  return {};
}

}  // namespace rollcall::pack
