#include "trainer/data/sources/tar_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"

namespace rollcall::data {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMostExtension = 1 << 16;  // bytes of a long name or a pax header

/// A ustar header in its layout in the archive.
struct TarHeader {
  std::array<char, 100> name;
  std::array<char, 24> mode_owner_group;
  std::array<char, 12> size;
  std::array<char, 12> modified;
  std::array<char, 8> checksum;
  char type;
  std::array<char, 100> link;
  std::array<char, 8> magic_and_version;
  std::array<char, 80> owner_names_and_device;
  std::array<char, 155> prefix;
  std::array<char, 12> padding;
};
static_assert(sizeof(TarHeader) == kBlock);

Error damaged_tar(std::string reason) {
  return fail("--data", "", "is a damaged tar archive: " + std::move(reason), "writing or copying it again",
              ErrorKind::BadData);
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& field) {
  return {field.data(), ::strnlen(field.data(), N)};
}

/// Reads octal digits with blanks or NULs around them, or GNU's binary notation for large numbers.
template <std::size_t N>
std::optional<std::uint64_t> number_of(const std::array<char, N>& field) {
  std::uint64_t number = 0;
  const auto first = static_cast<unsigned char>(field[0]);
  if ((first & 0x80U) != 0) {
    for (std::size_t i = 0; i < N; ++i) {
      if (number >> 55U != 0) {
        return std::nullopt;
      }
      number = number << 8U | (static_cast<unsigned char>(field[i]) & (i == 0 ? 0x7fU : 0xffU));
    }
    return number;
  }
  std::string text = text_of(field);
  const std::string_view digits = trim(text);
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') {
      return std::nullopt;
    }
    number = number << 3U | static_cast<std::uint64_t>(digit - '0');  // at most 12 digits
  }
  return number;
}

/// Returns whether the checksum is right: the sum of all bytes, those of the checksum counting as blanks. Some old
/// programs added signed bytes.
bool checksum_is_right(const TarHeader& header) {
  std::array<unsigned char, kBlock> bytes{};
  std::memcpy(bytes.data(), &header, kBlock);
  const auto begin = bytes.begin() + offsetof(TarHeader, checksum);
  std::fill(begin, begin + sizeof(header.checksum), static_cast<unsigned char>(' '));
  std::int64_t sum = 0;
  std::int64_t signed_sum = 0;
  for (const unsigned char byte : bytes) {
    sum += byte;
    signed_sum += static_cast<signed char>(byte);
  }
  const auto stated = number_of(header.checksum);
  return stated && (static_cast<std::int64_t>(*stated) == sum || static_cast<std::int64_t>(*stated) == signed_sum);
}

bool is_empty(const TarHeader& header) {
  const auto* const bytes = reinterpret_cast<const char*>(&header);
  return std::all_of(bytes, bytes + kBlock, [](char byte) { return byte == 0; });
}

std::string name_of(const TarHeader& header) {
  const bool ustar = std::memcmp(header.magic_and_version.data(), "ustar\0", 6) == 0;  // GNU's has a blank there
  const std::string prefix = ustar ? text_of(header.prefix) : "";
  return prefix.empty() ? text_of(header.name) : prefix + "/" + text_of(header.name);
}

/// The overrides that extension headers specify for the next member.
struct Override {
  std::optional<std::string> name;
  std::optional<std::uint64_t> bytes;
  bool is_sparse = false;
};

/// Reads records "LENGTH KEY=VALUE\n", where LENGTH counts the whole record. Returns false for anything else.
bool read_pax(std::string_view text, Override& override) {
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    const auto length =
        blank == std::string_view::npos ? std::nullopt : parse_integer<std::uint64_t>(text.substr(0, blank));
    if (!length || *length > text.size() || *length < blank + 2 || text[*length - 1] != '\n') {
      return false;
    }
    const std::string_view record = text.substr(blank + 1, *length - blank - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) {
      return false;
    }
    const std::string_view value = record.substr(equals + 1);
    override.is_sparse |= record.starts_with("GNU.sparse.");
    if (record.substr(0, equals) == "path" || record.substr(0, equals) == "GNU.sparse.name") {
      override.name = std::string(value);
    } else if (record.substr(0, equals) == "size") {
      override.bytes = parse_integer<std::uint64_t>(value);
      if (!override.bytes) {
        return false;
      }
    }
    text.remove_prefix(*length);
  }
  return true;
}

class Indexer {
 public:
  Indexer(std::uint64_t archive_bytes, const ReadAt& read_at, const TakeMember& take, const TakeMember& take_link)
      : archive_bytes_(archive_bytes), read_at_(read_at), take_(take), take_link_(take_link) {}

  Result<std::uint64_t> run() {
    while (at_ < archive_bytes_) {
      ASSIGN_OR_RETURN(const bool more, read_member());
      if (!more) {
        return pass_end();
      }
    }
    return std::uint64_t{0};
  }

 private:
  /// Returns false at the end of the archive.
  Result<bool> read_member() {
    TarHeader header;
    if (archive_bytes_ - at_ < kBlock || !read_at_(std::as_writable_bytes(std::span(&header, 1)), at_)) {
      return damaged_tar(fmt::format("it is truncated at byte {}", at_));
    }
    if (is_empty(header)) {
      return false;
    }
    const auto bytes = number_of(header.size);
    if (!checksum_is_right(header) || !bytes) {
      return damaged_tar(fmt::format("the header at byte {} is invalid", at_));
    }
    at_ += kBlock;
    const bool extension = header.type == 'L' || header.type == 'x' || header.type == 'K' || header.type == 'g';
    const std::uint64_t stored = extension ? *bytes : override_.bytes.value_or(*bytes);
    if (stored > archive_bytes_ - at_) {
      return damaged_tar(fmt::format("it is truncated in the member at byte {} ({} bytes long)", at_, stored));
    }
    RETURN_IF_ERROR(extension ? take_extension(header.type, stored) : take_member(header, stored));
    // The last member's padding may be missing.
    const std::uint64_t padded = stored + (kBlock - stored % kBlock) % kBlock;
    at_ += std::min(padded, archive_bytes_ - at_);
    return true;
  }

  /// Returns how many bytes are empty blocks. An archive ends with some, usually 20. Members after them belong to a
  /// second archive, or to this one if a part of it was overwritten.
  Result<std::uint64_t> pass_end() {
    std::uint64_t zeros = 0;
    TarHeader header;
    for (; archive_bytes_ - at_ >= kBlock; at_ += kBlock) {
      if (!read_at_(std::as_writable_bytes(std::span(&header, 1)), at_)) {
        return damaged_tar(fmt::format("it cannot be read at byte {}", at_));
      }
      if (is_empty(header)) {
        zeros += kBlock;
      } else if (checksum_is_right(header)) {
        return fail("--data", "", fmt::format("holds a second archive after its end, at byte {}", at_),
                    "joining archives with tar --concatenate, not with cat", ErrorKind::BadData);
      }
    }
    return zeros;
  }

  Result<void> take_extension(char type, std::uint64_t bytes) {
    if (type == 'K' || type == 'g') {  // the name of a link; defaults for all members: nothing that is needed
      return {};
    }
    if (bytes > kMostExtension) {
      return damaged_tar(fmt::format("the extended header at byte {} has {} bytes", at_, bytes));
    }
    std::string text(bytes, '\0');
    if (!read_at_(std::as_writable_bytes(std::span(text)), at_)) {
      return damaged_tar(fmt::format("it cannot be read at byte {}", at_));
    }
    if (type == 'L') {
      override_.name = text.substr(0, text.find('\0'));
    } else if (!read_pax(text, override_)) {
      return damaged_tar(fmt::format("the extended header at byte {} is invalid", at_));
    }
    return {};
  }

  Result<void> take_member(const TarHeader& header, std::uint64_t bytes) {
    const Override override = std::exchange(override_, {});
    const std::string name = override.name.value_or(name_of(header));
    if (override.is_sparse || header.type == 'S' || header.type == 'M') {
      return fail("--data", "",
                  fmt::format("holds {} as {}", name,
                              header.type == 'M' ? "a part of a file in another archive" : "a sparse file"),
                  "writing it again without tar's --sparse and --multi-volume", ErrorKind::BadData);
    }
    if (header.type == '0' || header.type == '\0' || header.type == '7') {
      return take_({name, at_, bytes});
    }
    const bool is_link = header.type == '1' || header.type == '2';
    return is_link && take_link_ ? take_link_({name, at_, 0}) : Result<void>();
  }

  std::uint64_t archive_bytes_;
  const ReadAt& read_at_;
  const TakeMember& take_;
  const TakeMember& take_link_;
  std::uint64_t at_ = 0;
  Override override_;
};

}  // namespace

Result<std::uint64_t> index_tar(std::uint64_t archive_bytes, const ReadAt& read_at, const TakeMember& take,
                                const TakeMember& take_link) {
  return Indexer(archive_bytes, read_at, take, take_link).run();
}

}  // namespace rollcall::data
