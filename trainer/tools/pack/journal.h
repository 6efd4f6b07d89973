#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/tools/pack/prepare.h"

namespace rollcall::pack {

/// One file that was dealt with; bad ones too, so that a continued run reports them like an uninterrupted one.
struct JournalRecord {
  Outcome outcome = Outcome::Bad;
  ExitCode exit_code = ExitCode::Success;  ///< of Outcome::Bad
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

}  // namespace rollcall::pack
