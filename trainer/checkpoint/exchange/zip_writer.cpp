#include "trainer/checkpoint/exchange/zip_writer.h"

#include "trainer/checkpoint/exchange/little_endian.h"
#include "trainer/checkpoint/exchange/zip_layout.h"
#include "trainer/storage/crc32.h"

namespace rollcall::checkpoint::exchange {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint16_t kPaddingExtra = 0x4246;  ///< "FB", the mark of torch's own padding
constexpr std::uint16_t kFirstDay = 0x21;  ///< 1 January 1980: no time of day, so that equal content gives equal files

/// The Zip64 extra field: sizes, and in the central directory the offset as well.
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

/// An extra field that makes what follows it begin at a multiple of kAlignment; `at` is where the field begins.
std::string padding_extra(std::uint64_t at) {
  const auto filler = static_cast<std::uint16_t>((kAlignment - (at + 4) % kAlignment) % kAlignment);
  std::string extra;
  append_number<std::uint16_t>(extra, kPaddingExtra);
  append_number<std::uint16_t>(extra, filler);
  return extra + std::string(filler, 'Z');
}

/// What local and central headers share, from "version needed" to the length of the extra field.
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

/// The three records after the central directory: its place in 64 bits, where that stands, and the old end record.
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

Result<void> ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  entries_.push_back({name, bytes.size(), storage::crc32(bytes), out_.size()});
  if (auto written = out_.append(local_header(entries_.back())); !written) {
    return written;
  }
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

}  // namespace rollcall::checkpoint::exchange
