#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/output_file.h"
#include "trainer/checkpoint/exchange/zip_archive.h"

namespace rollcall::checkpoint::exchange {

/// Writes a zip archive of stored members, each beginning at a multiple of 64 bytes, as torch.save does: so they can be
/// mapped into memory (torch.load(mmap=True)). Zip64 throughout, whatever the size: one way, tested by every file.
class ZipWriter {
 public:
  /// `out` outlives the writer.
  explicit ZipWriter(OutputFile& out) : out_(out) {}

  /// Errors (InputOutput): those of OutputFile::append().
  [[nodiscard]] Result<void> add(const std::string& name, std::span<const std::byte> bytes);
  /// The central directory; nothing is added after it.
  [[nodiscard]] Result<void> finish();

 private:
  OutputFile& out_;
  std::vector<ZipEntry> entries_;
};

}  // namespace rollcall::checkpoint::exchange
