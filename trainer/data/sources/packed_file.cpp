#include "trainer/data/sources/packed_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trainer/storage/crc.h"

namespace rollcall::data {
namespace {

Error cannot_read(std::string what, int error_number, ErrorKind kind) {
  return fail("--data", std::move(what), "cannot be read: " + errno_text(error_number),
              "checking the file and its permissions", kind);
}

Error with_path(Error error, const std::string& path) {
  error.value = path;
  return error;
}

}  // namespace

Result<PackedFile> PackedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe would otherwise wait for a writer.
  storage::File file(path, O_RDONLY | O_NONBLOCK);
  const auto size = file ? file.regular_size() : std::nullopt;
  if (!size) {
    return cannot_read(path, errno, ErrorKind::NoInput);
  }
  PackedFile packed(path, std::move(file));
  ASSIGN_OR_RETURN(PackedLayout layout, read_packed_layout(packed.file_, path, *size));
  packed.layout_ = std::move(layout);
  RETURN_IF_ERROR(packed.read_class_names());
  RETURN_IF_ERROR(packed.read_tables());
  // Pictures are read in any order, so readahead would fill the page cache with unneeded data.
  ::posix_fadvise(packed.file_.descriptor(), 0, 0, POSIX_FADV_RANDOM);
  return packed;
}

DataIdentity PackedFile::identity() const {
  std::uint32_t labels = 0;
  for (const PackedEntry& entry : entries_) {
    labels = storage::crc32c(std::as_bytes(std::span(&entry.label, 1)), labels);
  }
  // The checksum of the names in the file equals that of an index of the packed tree.
  const std::optional<std::uint32_t>& names = layout_.name_data.crc32c;
  return {.images = static_cast<std::int64_t>(entries_.size()),
          .class_names = checksum_of_names(class_names_),
          .labels = labels,
          .picture_names = names ? std::int64_t{*names} : -1};
}

Result<std::vector<std::byte>> PackedFile::read_table(const DataSetLocation& place, const char* name) const {
  constexpr std::uint64_t kMostElements = std::uint64_t{1} << 50U;  // so that the product below does not overflow
  const std::uint64_t in_entries = std::min(place.elements, kMostElements) * sizeof(PackedEntry);
  if (!storage::fits_in_memory(std::max(place.bytes(), in_entries))) {
    return damaged_packed_file(path_, fmt::format("{} has {} elements, more than fit in memory", name, place.elements));
  }
  std::vector<std::byte> bytes(place.bytes());
  const auto count = file_.read_at(bytes, place.start);
  if (!count) {
    return cannot_read(path_, errno, ErrorKind::InputOutput);
  }
  if (*count != bytes.size()) {
    return damaged_packed_file(path_, fmt::format("is damaged: {} is truncated", name));
  }
  if (!place.crc32c || storage::crc32c(bytes) != *place.crc32c) {
    return damaged_packed_file(path_, fmt::format("is damaged: {} has a wrong checksum", name));
  }
  return bytes;
}

Result<void> PackedFile::read_class_names() {
  ASSIGN_OR_RETURN(const auto bytes, read_table(layout_.class_names, packed_schema::kClassNames));
  const std::size_t length = layout_.class_names.element_bytes;
  for (std::size_t at = 0; at < bytes.size(); at += length) {
    const auto* const text = reinterpret_cast<const char*>(bytes.data() + at);
    class_names_.emplace_back(text, ::strnlen(text, length));
  }
  if (class_names_.empty()) {
    return damaged_packed_file(path_, "is damaged: it has no classes");
  }
  return {};
}

Result<void> PackedFile::read_tables() {
  struct Row {
    const DataSetLocation& place;
    const char* name;
    std::span<const std::byte> PackedTables::*table;
  };
  const std::array rows{Row{layout_.offset, packed_schema::kOffset, &PackedTables::offset},
                        Row{layout_.length, packed_schema::kLength, &PackedTables::length},
                        Row{layout_.tile_count, packed_schema::kTileCount, &PackedTables::tile_count},
                        Row{layout_.label, packed_schema::kLabel, &PackedTables::label},
                        Row{layout_.crc32c, packed_schema::kCrc, &PackedTables::crc32c},
                        Row{layout_.width, packed_schema::kWidth, &PackedTables::width},
                        Row{layout_.height, packed_schema::kHeight, &PackedTables::height},
                        Row{layout_.orientation, packed_schema::kOrientation, &PackedTables::orientation}};
  std::array<std::vector<std::byte>, rows.size()> bytes;
  PackedTables tables;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSIGN_OR_RETURN(std::vector<std::byte> read, read_table(rows[i].place, rows[i].name));
    bytes[i] = std::move(read);
    tables.*rows[i].table = bytes[i];
  }
  Result<std::vector<PackedEntry>> entries = join_packed_tables(tables, layout_.data.elements, class_names_.size());
  if (!entries) {
    return with_path(entries.error(), path_);
  }
  entries_ = *std::move(entries);
  return {};
}

Result<std::span<const std::byte>> PackedFile::read(std::size_t index, std::vector<std::byte>& buffer) const {
  const PackedEntry& entry = entries_[index];
  const auto bytes = static_cast<std::size_t>(entry.stored_bytes());
  if (buffer.size() < bytes) {
    buffer.resize(bytes);
  }
  const std::span<std::byte> stored = std::span(buffer).first(bytes);
  const auto count = file_.read_at(stored, layout_.data.start + entry.offset);
  if (!count) {
    return cannot_read(describe(index), errno, ErrorKind::InputOutput);
  }
  if (*count != bytes) {
    return damaged_packed_file(describe(index), "became shorter while in use");
  }
  if (storage::crc32c(stored) != entry.crc32c) {
    return damaged_packed_file(describe(index), "has a wrong checksum: the file was damaged after it was written");
  }
  return std::span<const std::byte>(stored);
}

std::string PackedFile::name(std::size_t index) const {
  std::array<std::uint64_t, 2> bounds{};  // names are read only for messages, so they are not checked yet
  const auto at = layout_.name_offset.start + index * sizeof(std::uint64_t);
  const bool listed = index + 1 < layout_.name_offset.elements;
  if (!listed || file_.read_at(std::as_writable_bytes(std::span(bounds)), at) != sizeof(bounds)) {
    return "";
  }
  constexpr std::uint64_t kLongest = std::uint64_t{64} << 10U;
  const auto [begin, end] = bounds;
  if (begin > end || end > layout_.name_data.elements || end - begin > kLongest) {
    return "";
  }
  std::string text(end - begin, '\0');
  const auto count = file_.read_at(std::as_writable_bytes(std::span(text)), layout_.name_data.start + begin);
  return count == text.size() ? text : "";
}

std::string PackedFile::describe(std::size_t index) const {
  const std::string known = name(index);
  return fmt::format("{}: {}", path_, known.empty() ? fmt::format("sample {}", index) : known);
}

Result<std::shared_ptr<const ImageSource>> PackedSource::open(const std::string& path) {
  ASSIGN_OR_RETURN(PackedFile file, PackedFile::open(path));
  if (file.entries().empty()) {
    return fail("--data", path, "holds no images", "packing a folder of images", ErrorKind::BadData);
  }
  return std::shared_ptr<const ImageSource>(std::make_shared<PackedSource>(std::move(file)));
}

Result<ImageSource::Sample> PackedSource::fetch(std::int64_t index, FetchBuffer& buffer) const {
  const auto position = static_cast<std::size_t>(index);
  const PackedEntry& entry = file_.entries()[position];
  ASSIGN_OR_RETURN(const std::span<const std::byte> stored, file_.read(position, buffer.bytes));
  Sample sample{{.bytes = stored.first(entry.length)}, entry.label};
  if (entry.tile_count > 0) {
    const auto lengths = unpack_tile_lengths(entry, stored, buffer.tile_bytes);
    if (!lengths) {
      Error error = lengths.error();
      error.value = describe(index);
      return error;
    }
    sample.image.tiling = {.size = {static_cast<int>(entry.width), static_cast<int>(entry.height)},
                           .tile_bytes = *lengths,
                           .orientation = entry.orientation};
  }
  return sample;
}

std::string PackedSource::describe(std::int64_t index) const { return file_.describe(static_cast<std::size_t>(index)); }

}  // namespace rollcall::data
