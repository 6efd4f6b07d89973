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

/// One file that was dealt with; bad ones too, so that a continued run reports them like an uninterrupted one.
struct JournalRecord {
  Outcome outcome = Outcome::Bad;
  ErrorKind kind = ErrorKind::Internal;  ///< of Outcome::Bad
  SourceFacts source;
  data::PackedEntry entry;
  std::string note;
};

/// The bytes of a journal: a header that tells which work it belongs to, then records, each with a checksum. For the
/// machine that wrote it (numbers as in its memory).
[[nodiscard]] std::vector<std::byte> journal_header(std::uint32_t input_crc32c);
[[nodiscard]] std::vector<std::byte> journal_bytes(const JournalRecord& record);

struct ReadJournal {
  std::uint32_t input_crc32c = 0;
  std::vector<JournalRecord> records;
  std::vector<std::uint64_t> ends;  ///< of each record in the journal
};

/// All records up to the first one that is cut or damaged; nothing where even the header is. Pure; takes any bytes.
[[nodiscard]] std::optional<ReadJournal> read_journal(std::span<const std::byte> bytes);

/// Bytes of the header.
[[nodiscard]] std::uint64_t journal_header_bytes();

/// A packed file in the making, as two files beside its final name OUT: OUT.partial, which holds the pictures where
/// they will stay, and OUT.partial.journal. Killed at any moment, a later run finds in them how far this one came.
/// Locked against a second writer where the file system can do that. One thread; read() is thread-safe.
class PartialFile {
 public:
  /// Begins, or goes on with what is there. `input_crc32c` stands for all that decides the content.
  /// Errors: CannotCreate: no permission, no such folder, in use by another process, a link or another user's file of
  /// one of the two names (open_output()); Mismatch: what is there belongs to
  /// other work (with `discard` that is dropped).
  [[nodiscard]] static Result<PartialFile> open(const std::string& out, std::uint32_t input_crc32c, bool discard);

  [[nodiscard]] const std::vector<JournalRecord>& records() const { return records_; }
  /// Bytes of pictures and tile lengths.
  [[nodiscard]] std::uint64_t data_bytes() const { return data_bytes_; }

  /// Forgets all records but the first `count`. Error (InputOutput).
  [[nodiscard]] Result<void> keep(std::size_t count);
  /// Adds a sample: its bytes first, then its record. Error (InputOutput): disk full, quota.
  [[nodiscard]] Result<void> append(const PreparedSample& sample);
  /// Whether the bytes of record `index` are those that were written; `buffer` only grows.
  [[nodiscard]] bool is_sound(std::size_t index, std::vector<std::byte>& buffer) const;
  /// Brings the pictures to the storage device and out of the page cache. Error (InputOutput).
  [[nodiscard]] Result<void> sync();
  /// Adds tables and structures, reads them back, and gives the file its final name. Error (InputOutput).
  [[nodiscard]] Result<void> finish(const data::PackedContent& content);

  /// What to remove to start anew: "OUT.partial*".
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
