#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/interop/files.h"

namespace rollcall::checkpoint::interop {

/// The first four bytes of an archive: those of its first member's header.
inline constexpr std::uint32_t kZipSignature = 0x04034b50;

/// One member of a zip archive, as described in the central directory.
struct ZipEntry {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  std::uint64_t header = 0;  ///< offset of its local header
  bool is_stored = true;     ///< neither compressed nor encrypted
};

/// A zip archive (PKWARE's APPNOTE 6.3, with Zip64) whose members are stored, not compressed: what torch.save writes.
/// Move only; read() is thread-safe.
class ZipArchive {
 public:
  /// Reads the central directory. Errors: BadData: the file is not a zip archive, is damaged or split, or names a
  /// member twice; InputOutput.
  [[nodiscard]] static Result<ZipArchive> open(InputFile file);

  [[nodiscard]] const InputFile& file() const { return file_; }
  [[nodiscard]] const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Returns the member of that name, or null.
  [[nodiscard]] const ZipEntry* find(std::string_view name) const;
  /// Returns all bytes of a member after checking its CRC-32. Errors: BadData (also if it is encrypted or compressed),
  /// InputOutput.
  [[nodiscard]] Result<std::unique_ptr<std::byte[]>> read(const ZipEntry& entry) const;

 private:
  explicit ZipArchive(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  std::vector<ZipEntry> entries_;  ///< by name
};

/// Writes a zip archive of stored members, each beginning at a multiple of 64 bytes, as torch.save does, so that they
/// can be mapped into memory (torch.load(mmap=True)). Uses Zip64 for every size, so that every file tests the same
/// code.
class ZipWriter {
 public:
  /// `out` outlives the writer.
  explicit ZipWriter(OutputFile& out) : out_(out) {}

  /// Adds a member. Errors (InputOutput): those of OutputFile::append().
  [[nodiscard]] Result<void> add(const std::string& name, std::span<const std::byte> bytes);
  /// Writes the central directory; nothing is added after it.
  [[nodiscard]] Result<void> finish();

 private:
  OutputFile& out_;
  std::vector<ZipEntry> entries_;
};

}  // namespace rollcall::checkpoint::interop
