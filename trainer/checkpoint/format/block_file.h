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

/// A stretch of a data set in memory, and its place in the file.
struct PlacedSlice {
  std::uint64_t file_offset = 0;
  std::uint64_t dataset = 0;     ///< its number in the manifest
  std::uint64_t first_byte = 0;  ///< in the data set
  std::span<const std::byte> bytes;
  bool reaches_end = false;  ///< of the data set
};

/// A stretch of the file that is written in one go: slices with nothing but padding between them.
struct Block {
  std::uint64_t begin = 0;  ///< in the file
  std::uint64_t end = 0;
  std::vector<PlacedSlice> slices;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

/// Block length: long enough for a parallel file system's stripes (1 to 16 MiB), and to keep a disk busy.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{2} << 20U;

/// Cuts slices, in any order, into blocks of at most kBlockBytes that end at multiples of it where what is to be
/// written goes on. Slices that are cut become several. Pure.
[[nodiscard]] std::vector<Block> cut_into_blocks(std::vector<PlacedSlice> slices);

/// A rank's blocks of an existing file: written, made durable, read back. With ReadBack::Device what can go past the
/// page cache does: whole pages of a block, from an aligned buffer; the rest, and everything where the file system
/// refuses O_DIRECT or with ReadBack::Memory, goes through it. Errors (InputOutput) of all: the system's.
///
/// Where several hosts write to a file of which each keeps pages of its own (storage::File::cached_by_each_host()),
/// everything goes past the page cache, byte for byte: O_DIRECT has no alignment there (open(2), NOTES).
class BlockFile {
 public:
  /// `threads`: how many blocks are on their way at a time; each has a buffer of its own. `shared`: others write to the
  /// file as well.
  static Result<BlockFile> open(const std::string& path, ReadBack read_back, std::size_t threads, bool shared);

  /// The file is shared, and each host keeps pages of its own.
  [[nodiscard]] bool past_caches() const { return past_caches_; }

  /// Writes all blocks and keeps their checksums. `after_block` (may be empty) is told of each, by one thread at a
  /// time.
  [[nodiscard]] Result<void> write(std::vector<Block> blocks, const std::function<void()>& after_block);
  /// fsync(2), and reads all blocks back: from the device after it, from memory meanwhile. InputOutput where a checksum
  /// differs, too: `names` are the data sets', by number.
  [[nodiscard]] Result<void> sync_and_verify(const std::vector<std::string>& names);
  /// Of all that was written, joined.
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
  storage::File direct_;  ///< not open where O_DIRECT is refused or not wanted
  bool past_caches_ = false;
  std::vector<Block> blocks_;
  std::vector<std::vector<Fragment>> fragments_;  ///< by block
};

/// A checkpoint that cannot be written (InputOutput), with the advice for want of space, permissions and the like.
[[nodiscard]] Error write_failure(const std::string& path, const std::string& reason);

}  // namespace rollcall::checkpoint::format
