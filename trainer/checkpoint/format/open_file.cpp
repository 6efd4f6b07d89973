#include "trainer/checkpoint/format/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/hdf5_objects.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/crc32c.h"
#include "trainer/storage/hdf5_objects.h"

namespace rollcall::checkpoint::format {
namespace {

/// Size of a regular file that can be opened for reading. Errors (NoInput): there is none.
Result<std::uint64_t> readable_size(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  const bool found = descriptor >= 0 && ::fstat(descriptor, &status) == 0;
  const int error_number = errno;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (!found || !S_ISREG(status.st_mode)) {
    return fail("checkpoint", path, found ? "is not a regular file" : errno_text(error_number),
                "naming an existing checkpoint", ExitCode::NoInput);
  }
  return static_cast<std::uint64_t>(status.st_size);
}

/// Elements and shape of a data space; nothing where it has none.
std::optional<std::vector<std::int64_t>> shape_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || H5Sget_simple_extent_type(space) == H5S_NULL) {
    return std::nullopt;
  }
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space, dims.data(), nullptr) < 0) {
    return std::nullopt;
  }
  return std::vector<std::int64_t>(dims.begin(), dims.end());
}

std::string without_padding(const std::byte* text, std::size_t length) {
  const auto* const characters = reinterpret_cast<const char*>(text);
  return {characters, ::strnlen(characters, length)};
}

template <typename Number>
Number number_at(std::span<const std::byte> bytes) {
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

std::optional<Value> text_value(const StoredDataset& dataset, std::span<const std::byte> bytes) {
  const std::size_t length = H5Tget_size(dataset.type.get());
  if (H5Tis_variable_str(dataset.type.get()) != 0 || length == 0 || dataset.shape.size() > 1) {
    return std::nullopt;
  }
  if (dataset.shape.empty()) {
    return without_padding(bytes.data(), length);
  }
  std::vector<std::string> texts;
  for (std::size_t at = 0; at + length <= bytes.size(); at += length) {
    texts.push_back(without_padding(bytes.data() + at, length));
  }
  return texts;
}

}  // namespace

std::optional<Value> value_of(const StoredDataset& dataset, std::span<const std::byte> bytes) {
  if (H5Tget_class(dataset.type.get()) == H5T_STRING) {
    return text_value(dataset, bytes);
  }
  if (!dataset.shape.empty()) {
    return std::nullopt;
  }
  if (H5Tequal(dataset.type.get(), H5T_STD_I64LE) > 0) {
    return number_at<std::int64_t>(bytes);
  }
  if (H5Tequal(dataset.type.get(), H5T_STD_U64LE) > 0) {
    return number_at<std::uint64_t>(bytes);
  }
  if (H5Tequal(dataset.type.get(), H5T_IEEE_F64LE) > 0) {
    return number_at<double>(bytes);
  }
  return std::nullopt;
}

Error OpenFile::damaged(const std::string& reason) const {
  return fail("checkpoint", path_, reason, "an earlier checkpoint", ExitCode::BadData);
}

Result<OpenFile> OpenFile::open(const std::string& path, Completeness completeness) {
  const auto size = readable_size(path);
  if (!size) {
    return size.error();
  }
  storage::silence_hdf5();
  OpenFile opened(path, *size);
  opened.file_ = storage::Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, storage::hdf5_file_access().get()), H5Fclose);
  if (!opened.file_) {
    return opened.damaged("is damaged or no HDF5 file: " + storage::hdf5_reason());
  }
  if (auto read = opened.read_attributes(completeness); !read) {
    return read.error();
  }
  return opened;
}

Result<void> OpenFile::read_attributes(Completeness completeness) {
  const hid_t root = file_.get();
  if (storage::read_text_attribute(root, schema::kFormatAttribute) != schema::kFormat) {
    return damaged(fmt::format("is damaged or not of format {}", schema::kFormat));
  }
  info_.format_version = storage::read_text_attribute(root, schema::kVersionAttribute).value_or("");
  const auto parts = split(info_.format_version, '.');
  const auto major = parts.empty() ? std::nullopt : parse_integer<int>(parts.front());
  if (!major) {
    return damaged("is damaged: it does not say its format version");
  }
  if (*major > schema::kMajorVersion) {
    return fail("checkpoint", path_,
                fmt::format("has format version {}, and this program reads up to {}.x", info_.format_version,
                            schema::kMajorVersion),
                "a newer rollcall", ExitCode::Mismatch);
  }
  if (completeness == Completeness::Required &&
      storage::read_uint32_attribute(root, schema::kCompleteAttribute) != 1U) {
    return damaged("was never finished");
  }
  info_.writer = storage::read_text_attribute(root, schema::kWriterAttribute).value_or("");
  info_.torch_version = storage::read_text_attribute(root, schema::kTorchVersionAttribute).value_or("");
  info_.created = storage::read_text_attribute(root, schema::kCreatedAttribute).value_or("");
  return {};
}

Result<std::vector<ManifestEntry>> OpenFile::manifest() const {
  const storage::Handle object(H5Dopen2(file_.get(), schema::kManifest, H5P_DEFAULT), H5Dclose);
  const auto crc = object ? storage::read_uint32_attribute(object.get(), schema::kCrcAttribute) : std::nullopt;
  const storage::Handle type(object ? H5Dget_type(object.get()) : H5I_INVALID_HID, H5Tclose);
  if (!crc || !type || H5Tget_class(type.get()) != H5T_STRING) {
    return damaged(fmt::format("is damaged: {} cannot be read", schema::kManifest));
  }
  const ManifestEntry own{schema::kManifest, H5Tget_size(type.get()), *crc};
  const auto dataset = read(own);
  if (!dataset) {
    return dataset.error();
  }
  auto entries = manifest_from_json(without_padding(dataset->bytes.get(), own.bytes));
  if (!entries) {
    return damaged(fmt::format("is damaged: {} is not in order", schema::kManifest));
  }
  return std::move(*entries);
}

Result<StoredDataset> OpenFile::read(const ManifestEntry& entry) const {
  const storage::Handle object(H5Dopen2(file_.get(), entry.name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!object) {
    return damaged(fmt::format("is damaged: {} cannot be opened", entry.name));
  }
  auto dataset = read_bytes(entry.name, object.get(), entry.bytes);
  if (!dataset) {
    return dataset;
  }
  if (storage::crc32c({dataset->bytes.get(), entry.bytes}) != entry.crc32c) {
    return damaged(fmt::format("is damaged: the checksum of {} is wrong", entry.name));
  }
  if (const auto name = storage::read_text_attribute(object.get(), schema::kDTypeAttribute)) {
    dataset->dtype = dtype_from_name(*name);
    const std::size_t size = H5Tget_size(dataset->type.get());
    if (dataset->dtype && dtype_size(*dataset->dtype) != size) {
      return damaged(fmt::format("is damaged: {} is called {} and has elements of {} bytes", entry.name, *name, size));
    }
  }
  dataset->state_dict_key = storage::read_text_attribute(object.get(), schema::kStateDictKeyAttribute).value_or("");
  return dataset;
}

Result<StoredDataset> OpenFile::read_bytes(const std::string& name, hid_t object, std::uint64_t expected_bytes) const {
  StoredDataset dataset;
  dataset.type = storage::Handle(H5Dget_type(object), H5Tclose);
  const storage::Handle space(H5Dget_space(object), H5Sclose);
  auto shape = space ? shape_of(space.get()) : std::nullopt;
  const hssize_t elements = space ? H5Sget_simple_extent_npoints(space.get()) : -1;
  if (!dataset.type || !shape || elements < 0) {
    return damaged(fmt::format("is damaged: {} has no type or shape", name));
  }
  const std::uint64_t size = H5Tget_size(dataset.type.get());
  if (expected_bytes > size_ || static_cast<std::uint64_t>(elements) * size != expected_bytes) {
    return damaged(fmt::format("is damaged: {} does not have its {} bytes", name, expected_bytes));
  }
  dataset.shape = std::move(*shape);
  dataset.bytes = std::make_unique_for_overwrite<std::byte[]>(expected_bytes);
  if (expected_bytes > 0 &&
      H5Dread(object, dataset.type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, dataset.bytes.get()) < 0) {
    return damaged(fmt::format("is damaged: {} cannot be read: {}", name, storage::hdf5_reason()));
  }
  return dataset;
}

}  // namespace rollcall::checkpoint::format
