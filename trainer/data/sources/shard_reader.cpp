#include "trainer/data/sources/shard_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/data/sources/tar_index.h"

namespace rollcall::data {
namespace {

/// Splits "a/b.c/0001.Seg.png" into the key "a/b.c/0001" and the ending "seg.png". Returns nothing if there is no dot
/// after the first character of the last part: such a member belongs to no sample.
std::optional<std::pair<std::string, std::string>> split_name(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', begin);
  if (dot == std::string::npos || dot == begin) {
    return std::nullopt;
  }
  return std::pair(name.substr(0, dot), lower_case(name.substr(dot + 1)));
}

/// Returns whether a member that belongs to no sample looks as if it should; not for the "._NAME" files of macOS.
bool is_hidden_sample(const std::string& name) {
  const std::string last = name.substr(name.rfind('/') + 1);
  return last.starts_with('.') && !last.starts_with("._") &&
         (is_picture_ending(last_ending(last)) || last_ending(last) == "cls");
}

/// Returns the compression of a file by its first bytes; empty if none is known.
std::string compression_of(std::string_view begin) {
  using std::string_view_literals::operator""sv;
  constexpr std::array known{std::pair("\x1f\x8b"sv, "gzip"), std::pair("\x28\xb5\x2f\xfd"sv, "zstd"),
                             std::pair("\xfd\x37zXZ\0"sv, "xz"), std::pair("BZh"sv, "bzip2"),
                             std::pair("\x04\x22\x4d\x18"sv, "lz4")};
  const auto* const found =
      std::find_if(known.begin(), known.end(), [&](const auto& kind) { return begin.starts_with(kind.first); });
  return found == known.end() ? "" : found->second;
}

/// Reads small, nearby pieces of a file with one pread(2): between two pictures of a shard are a label's header, the
/// label and a picture's header.
class NearbyReads {
 public:
  explicit NearbyReads(const storage::File& file) : file_(file) {}

  [[nodiscard]] bool read_at(std::span<std::byte> bytes, std::uint64_t offset) {
    if (bytes.size() > window_.size()) {
      return file_.read_at(bytes, offset) == bytes.size();
    }
    if (offset < begin_ || offset + bytes.size() > begin_ + filled_) {
      const auto count = file_.read_at(window_, offset);
      begin_ = offset;
      filled_ = count.value_or(0);
      if (filled_ < bytes.size()) {
        return false;
      }
    }
    std::memcpy(bytes.data(), window_.data() + (offset - begin_), bytes.size());
    return true;
  }

 private:
  const storage::File& file_;
  std::array<std::byte, 4096> window_{};
  std::uint64_t begin_ = 0;
  std::size_t filled_ = 0;
};

class ShardReader {
 public:
  ShardReader(const std::string& path, const storage::File& file, std::uint32_t shard, SourceIndices& indices,
              ShardContent& content)
      : path_(path), file_(file), reads_(file), shard_(shard), indices_(indices), content_(content) {}

  Result<void> read() {
    const auto size = file_.regular_size();
    if (!size) {
      return unreadable_shard(path_, errno, ErrorKind::NoInput);
    }
    RETURN_IF_ERROR(check_plain(*size));
    const Result<std::uint64_t> zeros = index_tar(
        *size, [&](std::span<std::byte> bytes, std::uint64_t at) { return reads_.read_at(bytes, at); },
        [&](const TarMember& member) { return take(member); }, [&](const TarMember& link) { return refuse(link); });
    if (!zeros) {
      Error error = zeros.error();
      error.value = error.value.empty() ? path_ : error.value;
      return error;
    }
    constexpr std::uint64_t kMostZeros = 1 << 20;  // more than the padding that any tar writes
    if (*zeros > kMostZeros) {
      content_.left_out.add("ends of shards that are more than 1 MiB of zeros, as in an unfinished copy", path_);
    }
    return finish_sample();
  }

 private:
  Result<void> check_plain(std::uint64_t size) {
    std::string begin(std::min<std::uint64_t>(size, 8), '\0');
    const bool is_read = reads_.read_at(std::as_writable_bytes(std::span(begin)), 0);
    const std::string compression = is_read ? compression_of(begin) : "";
    if (compression.empty()) {
      return {};
    }
    return fail("--data", path_, "is compressed with " + compression + ", but pictures are read in place",
                "decompressing it (compression hardly makes pictures smaller)", ErrorKind::BadData);
  }

  /// Handles a link instead of a picture or label.
  Result<void> refuse(const TarMember& link) const {
    const auto name = split_name(link.name);
    const bool is_needed = name && (is_picture_ending(name->second) || name->second == "cls");
    return is_needed ? fail("--data", path_ + ": " + link.name, "is a link without the file's content",
                            "writing the shard with tar's --dereference and --hard-dereference", ErrorKind::BadData)
                     : Result<void>();
  }

  Result<void> take(const TarMember& member) {
    if (indices_.stop) {
      return indexing_stopped(path_);
    }
    const auto name = split_name(member.name);
    if (!name) {
      if (is_hidden_sample(member.name)) {
        content_.left_out.add("hidden by a dot", path_ + ": " + member.name);
      }
      return {};
    }
    const auto& [key, ending] = *name;
    if (key != key_) {
      RETURN_IF_ERROR(finish_sample());
      key_ = key;
    }
    if (is_picture_ending(ending)) {
      return take_picture(member, ending);
    }
    if (ending == "cls") {
      return take_label(member);
    }
    const bool is_dotted_picture = is_picture_ending(last_ending(ending));
    other_ = other_.empty() || is_dotted_picture ? member.name : other_;
    dotted_pictures_ += is_dotted_picture ? 1 : 0;
    dotted_labels_ += last_ending(ending) == "cls" ? 1 : 0;
    return {};
  }

  Result<void> take_picture(const TarMember& member, const std::string& ending) {
    if (member.bytes > std::numeric_limits<std::uint32_t>::max()) {
      return unusable_shard(path_ + ": " + member.name, "has more than 4 GiB");
    }
    if (picture_ && ending == picture_ending_) {
      return twice(member);
    }
    if (picture_) {
      return fail("--data", path_ + ": " + member.name,
                  "is a second picture with this key, besides ." + picture_ending_,
                  "renaming the one that is not the input, for example to KEY.mask.png", ErrorKind::BadData);
    }
    picture_ = {.offset = member.offset, .bytes = static_cast<std::uint32_t>(member.bytes), .shard = shard_};
    picture_ending_ = ending;
    return {};
  }

  Result<void> take_label(const TarMember& member) {
    if (label_) {
      return twice(member);
    }
    std::string text(std::min<std::uint64_t>(member.bytes, 32), '\0');
    if (!reads_.read_at(std::as_writable_bytes(std::span(text)), member.offset)) {
      return unreadable_shard(path_, errno, ErrorKind::InputOutput);
    }
    const auto label = parse_integer<std::int64_t>(trim(text));
    if (!label || *label < 0 || *label > std::numeric_limits<std::int32_t>::max()) {
      return unusable_shard(path_ + ": " + member.name, "does not hold a label, an integer from 0");
    }
    label_ = static_cast<std::uint32_t>(*label);
    return {};
  }

  [[nodiscard]] Error twice(const TarMember& member) const {
    return fail("--data", path_ + ": " + member.name,
                "occurs twice in one sample: consecutive members with the same key form one sample",
                "giving each picture a key of its own, for example with its folder's name", ErrorKind::BadData);
  }

  /// Ends a sample. A picture without a label is an error; a sample without a picture, or with a dot in its key, is
  /// counted.
  Result<void> finish_sample() {
    if (picture_ && !label_) {
      return unusable_shard(path_ + ": " + key_, "has no label: a member with this key and the ending .cls is missing");
    }
    if (picture_) {
      picture_->label = *label_;
      content_.pictures.add(*picture_, key_);
      indices_.found += 1;
    }
    const std::int64_t dotted = picture_ ? dotted_labels_ : std::max(dotted_pictures_, dotted_labels_);
    if (dotted > 0) {
      content_.left_out.add("with a dot in the key", path_ + ": " + other_, dotted);
    } else if (!picture_ && (label_ || !other_.empty())) {
      const std::string example = other_.empty() ? key_ + ".cls" : other_;
      content_.left_out.add("with ." + last_ending(example) + " and no picture", path_ + ": " + example);
    }
    picture_.reset();
    label_.reset();
    other_.clear();
    dotted_pictures_ = 0;
    dotted_labels_ = 0;
    return {};
  }

  const std::string& path_;
  const storage::File& file_;
  NearbyReads reads_;
  std::uint32_t shard_;
  SourceIndices& indices_;
  ShardContent& content_;

  // The current sample.
  std::string key_;
  std::optional<SampleIndex::Entry> picture_;
  std::string picture_ending_;
  std::optional<std::uint32_t> label_;
  std::string other_;  ///< a member that is neither
  std::int64_t dotted_pictures_ = 0;
  std::int64_t dotted_labels_ = 0;
};

}  // namespace

Error unusable_shard(const std::string& path, std::string reason) {
  return fail("--data", path, std::move(reason), "writing the shards with KEY.jpg and KEY.cls for each picture",
              ErrorKind::BadData);
}

Error unreadable_shard(const std::string& path, int error_number, ErrorKind kind) {
  return fail("--data", path, "cannot be read: " + errno_text(error_number), "checking the file and its permissions",
              kind);
}

Result<void> read_shard(const std::string& path, const storage::File& file, std::uint32_t shard, SourceIndices& indices,
                        ShardContent& content) {
  return ShardReader(path, file, shard, indices, content).read();
}

}  // namespace rollcall::data
