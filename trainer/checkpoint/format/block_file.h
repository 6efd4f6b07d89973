#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/checkpoint/format/options.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {

/// A part of a data set in memory, and its offset in the file.
struct PlacedSlice {
  std::uint64_t file_offset = 0;
  std::uint64_t dataset = 0;     ///< number of the data set in the manifest
  std::uint64_t first_byte = 0;  ///< offset in the data set
  std::span<const std::byte> bytes;
  bool reaches_end = false;  ///< it contains the end of the data set
};

/// A part of the file that is written at once: slices with only padding between them.
struct Block {
  std::uint64_t begin = 0;  ///< offset in the file
  std::uint64_t end = 0;
  std::vector<PlacedSlice> slices;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

/// The length of a block: long enough for a parallel file system's stripes (1 to 16 MiB), and to keep a disk busy.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{2} << 20U;

/// Divides slices, in any order, into blocks of at most kBlockBytes; blocks that are continued end at multiples of it.
/// A slice may be divided among several blocks. Pure.
[[nodiscard]] std::vector<Block> cut_into_blocks(std::vector<PlacedSlice> slices);

/// A rank's blocks of an existing file, which it writes, makes durable and reads back. With ReadBack::Device it
/// bypasses the page cache where possible: for whole pages of a block, from an aligned buffer. The rest uses the page
/// cache, and so does everything with ReadBack::Memory or if the file system refuses O_DIRECT. Errors (InputOutput) of
/// all: the system's.
///
/// If several hosts write to a file and each keeps pages of its own (storage::File::cached_by_each_host()), everything
/// bypasses the page cache, byte by byte: O_DIRECT needs no alignment there (open(2), NOTES).
class BlockFile {
 public:
  /// Opens `path`. `threads`: number of blocks in progress; each has its own buffer. `shared`: other ranks write to the
  /// file as well.
  static Result<BlockFile> open(const std::string& path, ReadBack read_back, std::size_t threads, bool shared);

  /// Returns whether the file is shared and each host keeps pages of its own.
  [[nodiscard]] bool past_caches() const { return past_caches_; }

  /// Writes all blocks and keeps their checksums. Calls `after_block` (may be empty) for each, from one thread at a
  /// time.
  [[nodiscard]] Result<void> write(std::vector<Block> blocks, const std::function<void()>& after_block);
  /// Calls fsync(2) and reads all blocks back: from the device after it, from memory meanwhile. InputOutput also if a
  /// checksum differs. `names`: names of the data sets, by number.
  [[nodiscard]] Result<void> sync_and_verify(const std::vector<std::string>& names);
  /// Returns the joined fragments of everything that was written.
  [[nodiscard]] std::vector<Fragment> fragments() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Buffer = std::unique_ptr<std::byte[], Free>;

  BlockFile() = default;
  [[nodiscard]] Error failure(const std::string& what, int error_number) const;
  [[nodiscard]] std::vector<Buffer> make_buffers() const;
  [[nodiscard]] Result<void> write_block(std::size_t index, std::byte* buffer);
  [[nodiscard]] Result<void> write_cached(const Block& block);
  [[nodiscard]] Result<void> write_past_caches(const Block& block);
  [[nodiscard]] Result<void> write_direct(const Block& block, std::byte* buffer);
  [[nodiscard]] Result<void> sync() const;
  [[nodiscard]] Result<void> verify(const std::vector<std::string>& names);
  [[nodiscard]] Result<void> verify_block(std::size_t index, std::byte* buffer, const std::vector<std::string>& names);

  std::string path_;
  ReadBack read_back_ = ReadBack::Device;
  std::size_t threads_ = 1;
  storage::File cached_;
  storage::File direct_;  ///< not open if O_DIRECT is refused or not wanted
  bool past_caches_ = false;
  std::vector<Block> blocks_;
  std::vector<std::vector<Fragment>> fragments_;  ///< by block
};

/// Returns the error (InputOutput) of a checkpoint that cannot be written, with the action for `error_number`
/// (what_to_try()).
[[nodiscard]] Error write_failure(const std::string& path, const std::string& reason, int error_number);
/// Returns write_failure() with the reason "<what>: <text of errno>".
[[nodiscard]] Error system_failure(const std::string& path, const std::string& what, int error_number);
/// Returns the error (InputOutput) of a checkpoint that differs from what was written.
[[nodiscard]] Error wrong_content(const std::string& path, const std::string& how);
/// Returns the error (CannotCreate) of a finished file that cannot be renamed to `path`.
[[nodiscard]] Error rename_failure(const std::string& path, int error_number);

}  // namespace rollcall::checkpoint::format
