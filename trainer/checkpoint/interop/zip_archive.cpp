#include "trainer/checkpoint/interop/zip_archive.h"

#include <algorithm>
#include <optional>

#include "trainer/checkpoint/interop/files.h"
#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::interop {
namespace {

/// Numbers of PKWARE's APPNOTE 6.3 ("ZIP File Format Specification"), sections 4.3.7 to 4.3.16 and 4.5.3.
namespace zip {

constexpr std::uint32_t kLocalHeader = kZipSignature;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kZip64End = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;

constexpr std::size_t kLocalHeaderBytes = 30;
constexpr std::size_t kCentralHeaderBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kZip64EndBytes = 56;
constexpr std::size_t kZip64LocatorBytes = 20;
constexpr std::size_t kLongestComment = 65535;

constexpr std::uint16_t kZip64Extra = 0x0001;
constexpr std::uint16_t kEncrypted = 1;  ///< bit of the flags
constexpr std::uint16_t kNamesAreUtf8 = 1 << 11;
constexpr std::uint16_t kVersionNeeded = 45;     ///< of Zip64
constexpr std::uint32_t kIn64Bits = 0xffffffff;  ///< in place of a number that the Zip64 extra field holds
constexpr std::uint16_t kCountIn64Bits = 0xffff;

}  // namespace zip

using Bytes = std::span<const std::byte>;

/// The location of the central directory.
struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

Bytes view(const std::unique_ptr<std::byte[]>& memory, std::uint64_t count) { return {memory.get(), count}; }

/// Returns the position of the last end record in `tail`; an archive's comment may follow it.
std::optional<std::size_t> find_end_record(Bytes tail) {
  for (std::size_t at = tail.size() < zip::kEndBytes ? 0 : tail.size() - zip::kEndBytes + 1; at-- > 0;) {
    const bool here = number_at<std::uint32_t>(tail, at) == zip::kEnd;
    if (here && at + zip::kEndBytes + number_at<std::uint16_t>(tail, at + 20) == tail.size()) {
      return at;
    }
  }
  return std::nullopt;
}

/// Returns the directory's 64-bit location from the record to which the locator before the end record points.
Result<Directory> read_zip64_end(const InputFile& file, std::uint64_t end_record) {
  if (end_record < zip::kZip64LocatorBytes) {
    return file.unusable("is a damaged zip archive");
  }
  ASSIGN_OR_RETURN(const auto locator, file.read(zip::kZip64LocatorBytes, end_record - zip::kZip64LocatorBytes));
  const Bytes pointer = view(locator, zip::kZip64LocatorBytes);
  if (number_at<std::uint32_t>(pointer, 0) != zip::kZip64Locator) {
    return file.unusable("is a damaged zip archive");
  }
  ASSIGN_OR_RETURN(const auto record, file.read(zip::kZip64EndBytes, number_at<std::uint64_t>(pointer, 8)));
  const Bytes end = view(record, zip::kZip64EndBytes);
  if (number_at<std::uint32_t>(end, 0) != zip::kZip64End) {
    return file.unusable("is a damaged zip archive");
  }
  return Directory{number_at<std::uint64_t>(end, 48), number_at<std::uint64_t>(end, 40)};
}

Result<Directory> find_directory(const InputFile& file) {
  const std::uint64_t tail_bytes = std::min<std::uint64_t>(file.size(), zip::kEndBytes + zip::kLongestComment);
  ASSIGN_OR_RETURN(const auto tail, file.read(tail_bytes, file.size() - tail_bytes));
  const Bytes bytes = view(tail, tail_bytes);
  const auto end = find_end_record(bytes);
  if (!end) {
    return file.unusable("is a truncated or damaged zip archive: its end is missing");
  }
  const Directory directory{number_at<std::uint32_t>(bytes, *end + 16), number_at<std::uint32_t>(bytes, *end + 12)};
  const bool in_64_bits = directory.offset == zip::kIn64Bits || directory.bytes == zip::kIn64Bits ||
                          number_at<std::uint16_t>(bytes, *end + 10) == zip::kCountIn64Bits;
  return in_64_bits ? read_zip64_end(file, file.size() - tail_bytes + *end) : directory;
}

/// Replaces numbers that are marked as 64-bit by those of the Zip64 extra field, which has only these, in this order.
bool apply_zip64(ZipEntry& entry, std::uint64_t& stored_bytes, Bytes extra) {
  while (extra.size() >= 4) {
    const auto kind = number_at<std::uint16_t>(extra, 0);
    const std::size_t size = number_at<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) {
      return false;
    }
    Bytes field = extra.subspan(4, size);
    extra = extra.subspan(4 + size);
    for (std::uint64_t* const number : {&entry.bytes, &stored_bytes, &entry.header}) {
      if (kind == zip::kZip64Extra && *number == zip::kIn64Bits && field.size() >= 8) {
        *number = number_at<std::uint64_t>(field, 0);
        field = field.subspan(8);
      }
    }
  }
  return true;
}

/// Removes the first member from `directory` and returns it.
Result<ZipEntry> next_entry(const InputFile& file, Bytes& directory) {
  if (directory.size() < zip::kCentralHeaderBytes || number_at<std::uint32_t>(directory, 0) != zip::kCentralHeader) {
    return file.unusable("is a damaged zip archive: its list of members is invalid");
  }
  const std::size_t name = number_at<std::uint16_t>(directory, 28);
  const std::size_t extra = number_at<std::uint16_t>(directory, 30);
  const std::size_t comment = number_at<std::uint16_t>(directory, 32);
  if (zip::kCentralHeaderBytes + name + extra + comment > directory.size()) {
    return file.unusable("is a damaged zip archive: its list of members is truncated");
  }
  ZipEntry entry;
  const auto name_bytes = directory.subspan(zip::kCentralHeaderBytes, name);
  entry.name.assign(reinterpret_cast<const char*>(name_bytes.data()), name);
  entry.crc32 = number_at<std::uint32_t>(directory, 16);
  entry.bytes = number_at<std::uint32_t>(directory, 24);
  entry.header = number_at<std::uint32_t>(directory, 42);
  std::uint64_t stored_bytes = number_at<std::uint32_t>(directory, 20);
  if (!apply_zip64(entry, stored_bytes, directory.subspan(zip::kCentralHeaderBytes + name, extra))) {
    return file.unusable("is a damaged zip archive: member " + entry.name + " is invalid");
  }
  const bool encrypted = (number_at<std::uint16_t>(directory, 8) & zip::kEncrypted) != 0;
  entry.is_stored = !encrypted && number_at<std::uint16_t>(directory, 10) == 0 && stored_bytes == entry.bytes;
  directory = directory.subspan(zip::kCentralHeaderBytes + name + extra + comment);
  return entry;
}

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint16_t kPaddingExtra = 0x4246;  ///< "FB", the mark of PyTorch's padding
constexpr std::uint16_t kFirstDay = 0x21;  ///< 1 January 1980: no time of day, so that equal content gives equal files

/// Returns the Zip64 extra field: sizes, and in the central directory the offset as well.
std::string zip64_extra(const ZipEntry& entry, bool with_offset) {
  std::string extra;
  append_number<std::uint16_t>(extra, zip::kZip64Extra);
  append_number<std::uint16_t>(extra, with_offset ? 24 : 16);
  append_number<std::uint64_t>(extra, entry.bytes);
  append_number<std::uint64_t>(extra, entry.bytes);
  if (with_offset) {
    append_number<std::uint64_t>(extra, entry.header);
  }
  return extra;
}

/// Returns an extra field that aligns the next byte to kAlignment; `at` is the offset of the field.
std::string padding_extra(std::uint64_t at) {
  const auto filler = static_cast<std::uint16_t>((kAlignment - (at + 4) % kAlignment) % kAlignment);
  std::string extra;
  append_number<std::uint16_t>(extra, kPaddingExtra);
  append_number<std::uint16_t>(extra, filler);
  return extra + std::string(filler, 'Z');
}

/// Returns the common part of local and central headers, from "version needed" to the length of the extra field.
std::string common_header(const ZipEntry& entry, std::size_t extra_bytes) {
  std::string header;
  append_number<std::uint16_t>(header, zip::kVersionNeeded);
  append_number<std::uint16_t>(header, zip::kNamesAreUtf8);
  append_number<std::uint16_t>(header, 0);  // stored
  append_number<std::uint16_t>(header, 0);  // time
  append_number<std::uint16_t>(header, kFirstDay);
  append_number<std::uint32_t>(header, entry.crc32);
  append_number<std::uint32_t>(header, zip::kIn64Bits);
  append_number<std::uint32_t>(header, zip::kIn64Bits);
  append_number(header, static_cast<std::uint16_t>(entry.name.size()));
  append_number(header, static_cast<std::uint16_t>(extra_bytes));
  return header;
}

std::string local_header(const ZipEntry& entry) {
  std::string extra = zip64_extra(entry, false);
  extra += padding_extra(entry.header + zip::kLocalHeaderBytes + entry.name.size() + extra.size());
  std::string header;
  append_number<std::uint32_t>(header, zip::kLocalHeader);
  return header + common_header(entry, extra.size()) + entry.name + extra;
}

std::string central_header(const ZipEntry& entry) {
  const std::string extra = zip64_extra(entry, true);
  std::string header;
  append_number<std::uint32_t>(header, zip::kCentralHeader);
  append_number<std::uint16_t>(header, zip::kVersionNeeded);  // made by
  header += common_header(entry, extra.size());
  append_number<std::uint16_t>(header, 0);               // comment
  append_number<std::uint16_t>(header, 0);               // disk
  append_number<std::uint16_t>(header, 0);               // internal attributes
  append_number<std::uint32_t>(header, 0);               // external attributes
  append_number<std::uint32_t>(header, zip::kIn64Bits);  // offset
  return header + entry.name + extra;
}

/// Returns the three records after the central directory: its 64-bit location, a locator of that, and the end record.
std::string end_records(std::uint64_t count, std::uint64_t offset, std::uint64_t bytes) {
  std::string text;
  append_number<std::uint32_t>(text, zip::kZip64End);
  append_number<std::uint64_t>(text, zip::kZip64EndBytes - 12);  // of what follows
  append_number<std::uint16_t>(text, zip::kVersionNeeded);
  append_number<std::uint16_t>(text, zip::kVersionNeeded);
  append_number<std::uint32_t>(text, 0);  // this disk
  append_number<std::uint32_t>(text, 0);  // the directory's disk
  append_number<std::uint64_t>(text, count);
  append_number<std::uint64_t>(text, count);
  append_number<std::uint64_t>(text, bytes);
  append_number<std::uint64_t>(text, offset);

  append_number<std::uint32_t>(text, zip::kZip64Locator);
  append_number<std::uint32_t>(text, 0);
  append_number<std::uint64_t>(text, offset + bytes);
  append_number<std::uint32_t>(text, 1);  // disks

  append_number<std::uint32_t>(text, zip::kEnd);
  append_number<std::uint16_t>(text, 0);
  append_number<std::uint16_t>(text, 0);
  append_number<std::uint16_t>(text, zip::kCountIn64Bits);
  append_number<std::uint16_t>(text, zip::kCountIn64Bits);
  append_number<std::uint32_t>(text, zip::kIn64Bits);
  append_number<std::uint32_t>(text, zip::kIn64Bits);
  append_number<std::uint16_t>(text, 0);  // comment
  return text;
}

}  // namespace

Result<ZipArchive> ZipArchive::open(InputFile file) {
  ZipArchive archive(std::move(file));
  ASSIGN_OR_RETURN(const auto place, find_directory(archive.file_));
  ASSIGN_OR_RETURN(const auto memory, archive.file_.read(place.bytes, place.offset));
  std::uint64_t total = 0;
  for (Bytes directory = view(memory, place.bytes); !directory.empty();) {
    ASSIGN_OR_RETURN(auto entry, next_entry(archive.file_, directory));
    // Members that overlap could make a small file use much memory.
    const std::uint64_t bytes = entry.is_stored ? entry.bytes : 0;  // other members are never read
    if (bytes > archive.file_.size() - total) {
      return archive.file_.unusable("is a damaged zip archive: its members are larger than the file");
    }
    total += bytes;
    archive.entries_.push_back(std::move(entry));
  }
  std::ranges::sort(archive.entries_, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(archive.entries_, {}, &ZipEntry::name);
  if (twice != archive.entries_.end()) {
    return archive.file_.unusable("is a damaged zip archive: it holds " + twice->name + " twice");
  }
  return archive;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries_, name, {}, &ZipEntry::name);
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

Result<std::unique_ptr<std::byte[]>> ZipArchive::read(const ZipEntry& entry) const {
  if (!entry.is_stored) {
    return file_.unusable("is a compressed or encrypted zip archive, which torch.save never writes");
  }
  ASSIGN_OR_RETURN(const auto memory, file_.read(zip::kLocalHeaderBytes, entry.header));
  const Bytes header = view(memory, zip::kLocalHeaderBytes);
  if (number_at<std::uint32_t>(header, 0) != zip::kLocalHeader) {
    return file_.unusable("is a damaged zip archive: member " + entry.name + " is not where it should be");
  }
  const std::uint64_t data = entry.header + zip::kLocalHeaderBytes + number_at<std::uint16_t>(header, 26) +
                             number_at<std::uint16_t>(header, 28);
  auto bytes = file_.read(entry.bytes, data);
  if (bytes && storage::crc32(view(*bytes, entry.bytes)) != entry.crc32) {
    return file_.unusable(
        "is damaged: the checksum of member " + entry.name + " is wrong",
        "using another copy; if torch.serialization.set_crc32_options(False) was in effect, saving it again with True");
  }
  return bytes;
}

Result<void> ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  entries_.push_back({name, bytes.size(), storage::crc32(bytes), out_.size()});
  RETURN_IF_ERROR(out_.append(local_header(entries_.back())));
  return out_.append(bytes);
}

Result<void> ZipWriter::finish() {
  const std::uint64_t offset = out_.size();
  std::string directory;
  for (const ZipEntry& entry : entries_) {
    directory += central_header(entry);
  }
  return out_.append(directory + end_records(entries_.size(), offset, directory.size()));
}

}  // namespace rollcall::checkpoint::interop
