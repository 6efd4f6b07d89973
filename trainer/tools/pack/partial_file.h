#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/packed_writer.h"
#include "trainer/storage/file.h"
#include "trainer/tools/pack/prepare.h"

namespace rollcall::pack {

/// The record of one processed file, also of a bad one, so that a continued run reports it like an uninterrupted one.
struct JournalRecord {
  Outcome outcome = Outcome::Bad;
  ErrorKind kind = ErrorKind::Internal;  ///< kind of the error of Outcome::Bad
  SourceFacts source;
  data::PackedEntry entry;
  std::string note;
};

/// Return the bytes of a journal: a header that identifies the work, then records, each with a checksum. Numbers are in
/// the byte order of this machine.
[[nodiscard]] std::vector<std::byte> journal_header(std::uint32_t input_crc32c);
[[nodiscard]] std::vector<std::byte> journal_bytes(const JournalRecord& record);

struct ReadJournal {
  std::uint32_t input_crc32c = 0;
  std::vector<JournalRecord> records;
  std::vector<std::uint64_t> ends;  ///< end of each record in the journal
};

/// Reads all records before the first truncated or damaged one; returns nothing if the header is. Pure; accepts any
/// bytes.
[[nodiscard]] std::optional<ReadJournal> read_journal(std::span<const std::byte> bytes);

/// Returns the size of the header in bytes.
[[nodiscard]] std::uint64_t journal_header_bytes();

/// An unfinished packed file: OUT.partial holds the pictures at their final offsets, and OUT.partial.journal the
/// records. If the process is killed at any moment, a later run finds there how far it came. Locked against a second
/// writer if the file system supports that. Used by one thread, but read() is thread-safe.
class PartialFile {
 public:
  /// Starts, or continues what exists. `input_crc32c` stands for everything that decides the content. Errors:
  /// CannotCreate: no permission, no such folder, in use by another process, one of the two names is a link or another
  /// user's file (open_output()); Mismatch: the existing files belong to other work (with `discard` they are dropped).
  [[nodiscard]] static Result<PartialFile> open(const std::string& out, std::uint32_t input_crc32c, bool discard);

  [[nodiscard]] const std::vector<JournalRecord>& records() const { return records_; }
  /// Returns the bytes of pictures and tile lengths.
  [[nodiscard]] std::uint64_t data_bytes() const { return data_bytes_; }

  /// Drops all records but the first `count`. Error (InputOutput).
  [[nodiscard]] Result<void> keep(std::size_t count);
  /// Adds a sample: its bytes first, then its record. Error (InputOutput): disk full, quota.
  [[nodiscard]] Result<void> append(const PreparedSample& sample);
  /// Returns whether the bytes of record `index` are those that were written; `buffer` only grows.
  [[nodiscard]] bool is_sound(std::size_t index, std::vector<std::byte>& buffer) const;
  /// Flushes the pictures to the storage device and drops them from the page cache. Error (InputOutput).
  [[nodiscard]] Result<void> sync();
  /// Adds tables and structures, reads them back and verifies them, and gives the file its final name. Error
  /// (InputOutput).
  [[nodiscard]] Result<void> finish(const data::PackedContent& content);

  /// Returns the files to remove for a new start: "OUT.partial*".
  [[nodiscard]] static std::string partial_files(const std::string& out) { return out + ".partial*"; }

 private:
  PartialFile() = default;
  [[nodiscard]] Result<void> load(std::uint32_t input_crc32c, bool discard);
  [[nodiscard]] Result<void> start_anew(std::uint32_t input_crc32c);
  [[nodiscard]] Error cannot_write(const std::string& path, int error_number) const;

  std::string out_;
  std::string data_path_;
  std::string journal_path_;
  storage::File data_;
  storage::File journal_;
  std::vector<JournalRecord> records_;
  std::vector<std::uint64_t> journal_ends_;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace rollcall::pack
