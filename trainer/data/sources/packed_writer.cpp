#include "trainer/data/sources/packed_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>

#include "runtime/base/owned_file.h"
#include "trainer/data/sources/packed_format.h"
#include "trainer/storage/crc.h"
#include "trainer/storage/file.h"
#include "trainer/storage/hdf5.h"

namespace rollcall::data {
namespace {

using storage::Handle;

Error cannot_write(const std::string& path, const std::string& reason, int error_number) {
  return fail("OUT", path, "cannot be written: " + reason, what_to_try(error_number, "writing to another file system"),
              ErrorKind::InputOutput);
}

/// Creates a file without time stamps, for reproducible files, and with all links in the root's own header, which has a
/// checksum.
Handle file_creation() {
  constexpr unsigned kMostLinks = 64;
  Handle properties(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(properties.get(), false);
  H5Pset_link_phase_change(properties.get(), kMostLinks, kMostLinks / 2);
  return properties;
}

Handle create_dataset(hid_t file, const char* name, hid_t type, std::uint64_t elements) {
  const auto extent = static_cast<std::int64_t>(elements);
  return storage::create_hdf5_dataset(file, name, type, std::span(&extent, 1), H5P_DEFAULT,
                                      storage::hdf5_dataset_creation().get());
}

/// Creates /data without writing it; returns its offset in the file, or nothing if HDF5 failed.
std::optional<std::uint64_t> create_data(hid_t file, std::uint64_t bytes) {
  Handle data = create_dataset(file, packed_schema::kData, H5T_STD_U8LE, bytes);
  const haddr_t start = data ? H5Dget_offset(data.get()) : HADDR_UNDEF;
  return start != HADDR_UNDEF && data.close() ? std::optional<std::uint64_t>(start) : std::nullopt;
}

bool write_table(hid_t file, const char* name, hid_t type, std::uint64_t elements, std::span<const std::byte> bytes) {
  Handle table = create_dataset(file, name, type, elements);
  const bool written =
      table && (bytes.empty() || H5Dwrite(table.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) >= 0);
  return written &&
         storage::write_uint32_attribute(table.get(), packed_schema::kCrcAttribute, storage::crc32c(bytes)) &&
         table.close();
}

template <typename Number>
bool write_column(hid_t file, const char* name, hid_t type, const std::vector<Number>& column) {
  return write_table(file, name, type, column.size(), std::as_bytes(std::span(column)));
}

bool write_class_names(hid_t file, const std::vector<std::string>& names) {
  std::size_t length = 1;
  for (const std::string& name : names) {
    length = std::max(length, name.size());
  }
  std::string padded;
  for (const std::string& name : names) {
    padded += name;
    padded.resize(padded.size() + length - name.size());
  }
  return write_table(file, packed_schema::kClassNames, storage::hdf5_text_type(length).get(), names.size(),
                     std::as_bytes(std::span(padded)));
}

bool write_columns(hid_t file, const PackedColumns& columns) {
  return write_column(file, packed_schema::kOffset, H5T_STD_U64LE, columns.offset) &&
         write_column(file, packed_schema::kLength, H5T_STD_U32LE, columns.length) &&
         write_column(file, packed_schema::kTileCount, H5T_STD_U32LE, columns.tile_count) &&
         write_column(file, packed_schema::kLabel, H5T_STD_I32LE, columns.label) &&
         write_column(file, packed_schema::kCrc, H5T_STD_U32LE, columns.crc32c) &&
         write_column(file, packed_schema::kWidth, H5T_STD_U32LE, columns.width) &&
         write_column(file, packed_schema::kHeight, H5T_STD_U32LE, columns.height) &&
         write_column(file, packed_schema::kOrientation, H5T_STD_U8LE, columns.orientation) &&
         write_column(file, packed_schema::kNameOffset, H5T_STD_U64LE, columns.name_offset) &&
         write_column(file, packed_schema::kNameData, H5T_STD_U8LE, columns.name_data);
}

bool write_root(hid_t file, const PackedContent& content) {
  using storage::write_text_attribute;
  return write_text_attribute(file, packed_schema::kFormatAttribute, packed_schema::kFormat) &&
         write_text_attribute(file, packed_schema::kVersionAttribute, packed_schema::version()) &&
         write_text_attribute(file, packed_schema::kWriterAttribute, content.writer) &&
         write_text_attribute(file, packed_schema::kCreatedAttribute, content.created) &&
         storage::write_uint32_attribute(file, packed_schema::kInputAttribute, content.input_crc32c) &&
         storage::write_flag_attribute(file, packed_schema::kCompleteAttribute, true);
}

std::uint64_t stored_data_bytes(const PackedContent& content) {
  return std::max(content.data_bytes, packed_schema::kLeastDataBytes);
}

/// Writes a complete HDF5 file with a hole for /data.
Result<void> write_tables_file(const std::string& path, const PackedContent& content) {
  storage::silence_hdf5();
  ::unlink(path.c_str());  // the file of an interrupted attempt
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, file_creation().get(), storage::hdf5_file_access().get()),
              H5Fclose);
  const auto start = file ? create_data(file.get(), stored_data_bytes(content)) : std::nullopt;
  if (!start) {
    return cannot_write(path, storage::hdf5_reason(), storage::hdf5_errno());
  }
  if (*start != packed_schema::kDataStart) {
    return fail("OUT", path, fmt::format("this HDF5 library places the data at {}", *start),
                "reporting this: it is a bug", ErrorKind::Internal);
  }
  if (!write_root(file.get(), content) || !write_columns(file.get(), content.columns) ||
      !write_class_names(file.get(), content.class_names) || !file.close()) {
    return cannot_write(path, storage::hdf5_reason(), storage::hdf5_errno());
  }
  return {};
}

/// Copies bytes [begin, end) of one file to the same offset of another.
bool copy_range(const storage::File& from, const storage::File& to, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  while (begin < end) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - begin));
    if (from.read_at(piece, begin) != piece.size() || !to.write_at(piece, begin)) {
      return false;
    }
    begin += piece.size();
  }
  return true;
}

}  // namespace

void PackedColumns::add(const PackedEntry& entry, std::string_view name) {
  offset.push_back(entry.offset);
  length.push_back(entry.length);
  tile_count.push_back(entry.tile_count);
  label.push_back(entry.label);
  crc32c.push_back(entry.crc32c);
  width.push_back(entry.width);
  height.push_back(entry.height);
  orientation.push_back(entry.orientation);
  name_data.insert(name_data.end(), name.begin(), name.end());
  name_offset.push_back(name_data.size());
}

Result<void> finish_packed_file(const std::string& path, const PackedContent& content) {
  const std::string tables_path = path + ".tables";
  if (auto written = write_tables_file(tables_path, content); !written) {
    ::unlink(tables_path.c_str());
    return written.error();
  }
  const storage::File tables(tables_path, O_RDONLY);
  const storage::File whole(path, O_RDWR | O_NOFOLLOW);
  const auto end = tables ? tables.regular_size() : std::nullopt;
  const std::uint64_t data_end = packed_schema::kDataStart + content.data_bytes;
  const std::uint64_t tables_start = packed_schema::kDataStart + stored_data_bytes(content);
  // Drops what an interrupted attempt left after the pictures; extending the file again gives zeros.
  const bool done = end && whole && ::ftruncate(whole.descriptor(), static_cast<off_t>(data_end)) == 0 &&
                    ::ftruncate(whole.descriptor(), static_cast<off_t>(*end)) == 0 &&
                    copy_range(tables, whole, 0, packed_schema::kDataStart) &&
                    copy_range(tables, whole, tables_start, *end) && whole.sync();
  const int error_number = errno;
  ::unlink(tables_path.c_str());
  if (!done) {
    return cannot_write(path, errno_text(error_number), error_number);
  }
  return {};
}

}  // namespace rollcall::data
