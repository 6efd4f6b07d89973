#include "trainer/checkpoint/format/block_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <utility>

#include "runtime/base/owned_file.h"
#include "trainer/checkpoint/format/parallel_for.h"

namespace rollcall::checkpoint::format {
namespace {

/// Returns the highest possible end of the block that contains byte `offset`.
std::uint64_t block_end(std::uint64_t offset) { return (offset / kBlockBytes + 1) * kBlockBytes; }

/// Returns whether `next`, which follows `block` in the file, is written together with it. A short gap is padding only
/// between data sets: within one it belongs to other ranks.
bool belongs_to(const Block& block, const PlacedSlice& next) {
  const std::uint64_t gap = next.file_offset - block.end;
  const bool padding = gap < kAlignment && block.slices.back().reaches_end && next.first_byte == 0;
  return (gap == 0 || padding) && next.file_offset < block_end(block.begin);
}

/// Removes the first `count` bytes from `slice` and returns them.
PlacedSlice cut_off(PlacedSlice& slice, std::uint64_t count) {
  PlacedSlice first = slice;
  first.bytes = slice.bytes.first(count);
  first.reaches_end = slice.reaches_end && count == slice.bytes.size();
  slice.bytes = slice.bytes.subspan(count);
  slice.file_offset += count;
  slice.first_byte += count;
  return first;
}

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kWorthDirect = std::uint64_t{64}
                                       << 10U;  ///< shorter writes gain nothing by bypassing the page cache

std::uint64_t page_begin(std::uint64_t offset) { return offset / kPage * kPage; }
std::uint64_t page_end(std::uint64_t offset) { return page_begin(offset + kPage - 1); }

std::vector<Fragment> fragments_of(const Block& block) {
  std::vector<Fragment> fragments;
  for (const PlacedSlice& slice : block.slices) {
    sum_up(fragments, slice.dataset, slice.first_byte, slice.bytes);
  }
  return fragments;
}

/// Copies the block as it will be in the file, with zeros for padding, to `into`.
void assemble(const Block& block, std::byte* into) {
  std::uint64_t at = block.begin;
  for (const PlacedSlice& slice : block.slices) {
    std::memset(into + (at - block.begin), 0, slice.file_offset - at);
    std::memcpy(into + (slice.file_offset - block.begin), slice.bytes.data(), slice.bytes.size());
    at = slice.file_offset + slice.bytes.size();
  }
}

}  // namespace

std::vector<Block> cut_into_blocks(std::vector<PlacedSlice> slices) {
  std::sort(slices.begin(), slices.end(),
            [](const PlacedSlice& a, const PlacedSlice& b) { return a.file_offset < b.file_offset; });
  std::vector<Block> blocks;
  for (PlacedSlice& slice : slices) {
    while (!slice.bytes.empty()) {
      if (blocks.empty() || !belongs_to(blocks.back(), slice)) {
        blocks.push_back({slice.file_offset, slice.file_offset, {}});
      }
      Block& block = blocks.back();
      const std::uint64_t room = block_end(slice.file_offset) - slice.file_offset;
      block.slices.push_back(cut_off(slice, std::min<std::uint64_t>(room, slice.bytes.size())));
      block.end = block.slices.back().file_offset + block.slices.back().bytes.size();
    }
  }
  return blocks;
}

Error write_failure(const std::string& path, const std::string& reason, int error_number) {
  return fail("checkpoint", path, reason, what_to_try(error_number, "setting --checkpoint-dir to another file system"),
              ErrorKind::InputOutput);
}

Error system_failure(const std::string& path, const std::string& what, int error_number) {
  return write_failure(path, what + ": " + errno_text(error_number), error_number);
}

Error wrong_content(const std::string& path, const std::string& how) {
  return write_failure(path, "reading back what was written failed: " + how, EIO);
}

Error rename_failure(const std::string& path, int error_number) {
  return fail("checkpoint", path,
              "the finished file cannot be renamed to this name: " + why_refused(path, error_number),
              what_to_try(error_number, "setting --checkpoint-dir to another folder"), ErrorKind::CannotCreate);
}

void BlockFile::Free::operator()(std::byte* memory) const { std::free(memory); }

Error BlockFile::failure(const std::string& what, int error_number) const {
  return system_failure(path_, what, error_number);
}

std::vector<BlockFile::Buffer> BlockFile::make_buffers() const {
  const std::size_t count = std::min(threads_, blocks_.size());
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {  // a block may begin and end within a page
    buffers.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kPage, kBlockBytes + 2 * kPage)));
  }
  return buffers;
}

Result<BlockFile> BlockFile::open(const std::string& path, ReadBack read_back, std::size_t threads, bool shared) {
  BlockFile file;
  file.path_ = path;
  file.read_back_ = read_back;
  file.threads_ = std::max<std::size_t>(threads, 1);
  // Rank 0 created it; in a shared folder someone may have replaced it by a link since.
  file.cached_ = storage::File(path, O_RDWR | O_NOFOLLOW);
  if (!file.cached_) {
    return file.failure("cannot be opened for writing", errno);
  }
  file.past_caches_ = shared && file.cached_.cached_by_each_host();
  if (read_back == ReadBack::Device || file.past_caches_) {
    file.direct_ = storage::File(path, O_RDWR | O_DIRECT | O_NOFOLLOW);
  }
  return file;
}

Result<void> BlockFile::write(std::vector<Block> blocks, const std::function<void()>& after_block) {
  blocks_ = std::move(blocks);
  fragments_.assign(blocks_.size(), {});
  const std::vector<Buffer> buffers = make_buffers();
  std::mutex mutex;
  return parallel_for(blocks_.size(), buffers.size(), [&](std::size_t index, std::size_t worker) {
    Result<void> written = write_block(index, buffers[worker].get());
    if (written && after_block) {
      const std::lock_guard lock(mutex);
      after_block();
    }
    return written;
  });
}

Result<void> BlockFile::write_block(std::size_t index, std::byte* buffer) {
  const Block& block = blocks_[index];
  fragments_[index] = fragments_of(block);
  if (past_caches_) {
    return write_past_caches(block);
  }
  const std::uint64_t whole_pages = page_begin(block.end) - std::min(page_end(block.begin), page_begin(block.end));
  return direct_ && whole_pages >= kWorthDirect ? write_direct(block, buffer) : write_cached(block);
}

Result<void> BlockFile::write_cached(const Block& block) {
  for (const PlacedSlice& slice : block.slices) {
    if (!cached_.write_at(slice.bytes, slice.file_offset)) {
      return failure("cannot be written", errno);
    }
  }
  // The device starts while the checksum of the next block is computed; only fsync() reports success.
  static_cast<void>(::sync_file_range(cached_.descriptor(), static_cast<off_t>(block.begin),
                                      static_cast<off_t>(block.size()), SYNC_FILE_RANGE_WRITE));
  return {};
}

Result<void> BlockFile::write_past_caches(const Block& block) {
  if (!direct_) {
    return write_cached(block);  // rank 0 verifies the whole file at the end
  }
  for (const PlacedSlice& slice : block.slices) {
    const bool direct = direct_.write_at(slice.bytes, slice.file_offset);
    const bool refused = !direct && errno == EINVAL;  // SMB and FUSE leave it to the underlying file system
    if (!direct && !(refused && cached_.write_at(slice.bytes, slice.file_offset))) {
      return failure("cannot be written", errno);
    }
  }
  return {};
}

Result<void> BlockFile::write_direct(const Block& block, std::byte* buffer) {
  const std::uint64_t base = page_begin(block.begin);
  const std::uint64_t first_page = page_end(block.begin);
  const std::uint64_t last_page = page_begin(block.end);
  assemble(block, buffer + (block.begin - base));
  const auto part = [&](std::uint64_t begin, std::uint64_t end) {
    return std::span<const std::byte>(buffer + (begin - base), end - begin);
  };
  // Pages that this rank shares with structures or other ranks go through the page cache.
  if (!cached_.write_at(part(block.begin, first_page), block.begin) ||
      !cached_.write_at(part(last_page, block.end), last_page)) {
    return failure("cannot be written", errno);
  }
  const bool direct = direct_.write_at(part(first_page, last_page), first_page);
  const bool refused = !direct && errno == EINVAL;  // some file systems refuse only now
  if (!direct && !(refused && cached_.write_at(part(first_page, last_page), first_page))) {
    return failure("cannot be written", errno);
  }
  return {};
}

Result<void> BlockFile::sync_and_verify(const std::vector<std::string>& names) {
  if (read_back_ == ReadBack::Device) {
    Result<void> synced = sync();
    return synced ? verify(names) : synced;
  }
  auto syncing = std::async(std::launch::async, [this] { return sync(); });
  Result<void> verified = verify(names);
  Result<void> synced = syncing.get();
  return synced ? verified : synced;
}

Result<void> BlockFile::sync() const {
  // Pages that are read back by O_DIRECT may stay in the page cache, which rank 0 still uses for HDF5's structures.
  const bool keep = read_back_ == ReadBack::Memory || direct_;
  const auto cached = keep ? storage::Cached::Keep : storage::Cached::Drop;
  return cached_.sync(cached) ? Result<void>() : failure("cannot be written to the device", errno);
}

Result<void> BlockFile::verify(const std::vector<std::string>& names) {
  const std::vector<Buffer> buffers = make_buffers();
  return parallel_for(blocks_.size(), buffers.size(), [&](std::size_t index, std::size_t worker) {
    return verify_block(index, buffers[worker].get(), names);
  });
}

Result<void> BlockFile::verify_block(std::size_t index, std::byte* buffer, const std::vector<std::string>& names) {
  const Block& block = blocks_[index];
  const std::uint64_t base = page_begin(block.begin);
  const std::span<std::byte> pages(buffer, page_end(block.end) - base);
  auto got = direct_ ? direct_.read_at(pages, base) : cached_.read_at(pages, base);
  if (!got && direct_ && errno == EINVAL) {
    got = cached_.read_at(pages, base);
  }
  if (!got) {
    return failure("cannot be read back", errno);
  }
  Block found = block;
  for (PlacedSlice& slice : found.slices) {
    const std::uint64_t at = slice.file_offset - base;
    if (*got < at + slice.bytes.size()) {
      return wrong_content(path_, "the file is too short");
    }
    slice.bytes = pages.subspan(at, slice.bytes.size());
  }
  const std::vector<Fragment> read = fragments_of(found);
  const auto& written = fragments_[index];
  const auto differs = std::mismatch(read.begin(), read.end(), written.begin(), written.end()).first;
  return differs == read.end() ? Result<void>()
                               : wrong_content(path_, fmt::format("{} differs from byte {} on", names[differs->dataset],
                                                                  differs->first_byte));
}

std::vector<Fragment> BlockFile::fragments() const {
  std::vector<Fragment> all;
  for (const auto& of_block : fragments_) {
    all.insert(all.end(), of_block.begin(), of_block.end());
  }
  join(all);
  return all;
}

}  // namespace rollcall::checkpoint::format
