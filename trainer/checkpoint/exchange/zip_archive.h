#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/input_file.h"

namespace rollcall::checkpoint::exchange {

/// One member of a zip archive, as the central directory tells it.
struct ZipEntry {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  std::uint64_t header = 0;  ///< offset of its local header
};

/// A zip archive (PKWARE's APPNOTE 6.3, with Zip64) whose members are stored, not compressed: what torch.save writes.
/// Move only; read() is thread-safe.
class ZipArchive {
 public:
  /// Reads the central directory. Errors: BadData where the file is no zip archive, is damaged, split, encrypted or
  /// compressed, or names a member twice; InputOutput.
  [[nodiscard]] static Result<ZipArchive> open(InputFile file);

  [[nodiscard]] const InputFile& file() const { return file_; }
  [[nodiscard]] const std::vector<ZipEntry>& entries() const { return entries_; }
  /// The member of that name, or null.
  [[nodiscard]] const ZipEntry* find(std::string_view name) const;
  /// All bytes of a member, its CRC-32 being right. Errors: BadData, InputOutput.
  [[nodiscard]] Result<std::unique_ptr<std::byte[]>> read(const ZipEntry& entry) const;

 private:
  explicit ZipArchive(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  std::vector<ZipEntry> entries_;  ///< by name
};

}  // namespace rollcall::checkpoint::exchange
