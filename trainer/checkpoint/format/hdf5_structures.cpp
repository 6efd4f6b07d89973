#include "trainer/checkpoint/format/hdf5_structures.h"

#include <fcntl.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "runtime/base/owned_file.h"
#include "trainer/checkpoint/format/block_file.h"
#include "trainer/checkpoint/format/commit_header.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/crc.h"
#include "trainer/storage/file.h"
#include "trainer/storage/hdf5.h"

namespace rollcall::checkpoint::format {
namespace {

using storage::Handle;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

Handle half_precision() {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), 15);
  return type;
}

hid_t standard_type(DType dtype) {
  switch (dtype) {
    case DType::BFloat16:
      return H5T_STD_U16LE;
    case DType::Float64:
      return H5T_IEEE_F64LE;
    case DType::Bool:
    case DType::UInt8:
      return H5T_STD_U8LE;
    case DType::Int8:
      return H5T_STD_I8LE;
    case DType::Int16:
      return H5T_STD_I16LE;
    case DType::Int32:
      return H5T_STD_I32LE;
    case DType::Int64:
      return H5T_STD_I64LE;
    case DType::Float16:
    case DType::Float32:
      break;
  }
  return H5T_IEEE_F32LE;
}

/// Returns the file type: little-endian; bfloat16 as uint16 and bool as uint8 (the `dtype` attribute has the type);
/// float16 as IEEE 754 binary16. The bytes are not converted.
Handle hdf5_type(DType dtype) {
  return dtype == DType::Float16 ? half_precision() : Handle(H5Tcopy(standard_type(dtype)), H5Tclose);
}

/// Returns the file type of a tensor or value; an invalid handle for an unsupported type.
Handle hdf5_type(const ManifestEntry& entry) {
  if (entry.kind == Kind::Tensor) {
    const auto dtype = dtype_from_name(entry.type);
    return dtype ? hdf5_type(*dtype) : Handle();
  }
  if (entry.type == schema::kText) {
    return storage::hdf5_text_type(entry.element_bytes);
  }
  if (entry.type == schema::kUInt64) {
    return {H5Tcopy(H5T_STD_U64LE), H5Tclose};
  }
  return {H5Tcopy(entry.type == schema::kInt64 ? H5T_STD_I64LE : H5T_IEEE_F64LE), H5Tclose};
}

bool write_root_attributes(hid_t file, const FileInfo& info) {
  return storage::write_text_attribute(file, schema::kFormatAttribute, schema::kFormat) &&
         storage::write_text_attribute(file, schema::kVersionAttribute, info.format_version) &&
         storage::write_text_attribute(file, schema::kWriterAttribute, info.writer) &&
         storage::write_text_attribute(file, schema::kTorchVersionAttribute, info.torch_version) &&
         storage::write_text_attribute(file, schema::kCreatedAttribute, info.created) &&
         storage::write_flag_attribute(file, schema::kCompleteAttribute, false);
}

bool write_tensor_attributes(hid_t object, const ManifestEntry& entry) {
  return storage::write_text_attribute(object, schema::kDTypeAttribute, entry.type) &&
         storage::write_text_attribute(object, schema::kDimOrderAttribute, schema::kRowMajor) &&
         storage::write_text_attribute(object, schema::kStateDictKeyAttribute, entry.state_dict_key);
}

/// Returns the block size with which HDF5 allocates its structures, so that they are not scattered among the data:
/// about what this number of data sets with their attributes needs.
hsize_t structure_block_bytes(std::size_t datasets) {
  constexpr hsize_t kPerDataset = 768;
  constexpr hsize_t kBlock = 4096;
  return (datasets * kPerDataset + 2 * kBlock) / kBlock * kBlock;
}

Handle file_access(std::size_t datasets) {
  Handle properties = storage::hdf5_file_access();
  H5Pset_alignment(properties.get(), /*threshold=*/1, kAlignment);
  H5Pset_meta_block_size(properties.get(), structure_block_bytes(datasets));
  H5Pset_small_data_block_size(properties.get(), 0);  // no gaps between small data sets
  return properties;
}

Handle file_creation() {
  Handle properties(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_userblock(properties.get(), kUserBlockBytes);
  return properties;
}

Handle link_creation() {
  Handle properties(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(properties.get(), 1);
  return properties;
}

bool write_checksum(Handle& attribute, std::uint32_t checksum) {
  return attribute && H5Awrite(attribute.get(), H5T_STD_U32LE, &checksum) >= 0 && attribute.close();
}

/// Creates the file so that only this user may write to it: nobody changes a checkpoint, and a umask for the members of
/// a project is meant for their folders. HDF5 would create the file with that umask, and others could keep it open.
storage::File create_for_us_alone(const std::string& path) {
  return storage::File(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
}

Error cannot_be_created(const std::string& path, const std::string& reason, int error_number) {
  return fail("checkpoint", path, "cannot be created: " + reason,
              what_to_try(error_number, "setting --checkpoint-dir to another folder"), ErrorKind::CannotCreate);
}

}  // namespace

Hdf5Structures::Hdf5Structures(std::string path, storage::File made, Handle file)
    : path_(std::move(path)),
      made_(std::move(made)),
      file_(std::move(file)),
      link_creation_(link_creation()),
      dataset_creation_(storage::hdf5_dataset_creation()) {}

Error Hdf5Structures::failure(const std::string& what) const {
  return write_failure(path_, "cannot be written: " + storage::hdf5_reason() + (what.empty() ? "" : " (" + what + ")"),
                       storage::hdf5_errno());
}

Result<Hdf5Structures> Hdf5Structures::create(const std::string& path, const FileInfo& info,
                                              std::vector<ManifestEntry>& datasets) {
  storage::silence_hdf5();
  storage::File made = create_for_us_alone(path);
  if (!made) {
    const int error_number = errno;
    return cannot_be_created(path, why_refused(path, error_number), error_number);
  }
  // HDF5 follows links and would truncate what someone has put in the file's place since.
  const std::string opened = storage::hdf5_path(made, path);
  Hdf5Structures structures(
      path, std::move(made),
      Handle(H5Fcreate(opened.c_str(), H5F_ACC_TRUNC, file_creation().get(), file_access(datasets.size()).get()),
             H5Fclose));
  if (!structures.file_) {
    return cannot_be_created(path, storage::hdf5_reason(), storage::hdf5_errno());
  }
  if (!write_root_attributes(structures.file_.get(), info)) {
    return structures.failure("");
  }
  for (ManifestEntry& entry : datasets) {
    RETURN_IF_ERROR(structures.create_dataset(entry));
  }
  return structures;
}

Result<void> Hdf5Structures::create_dataset(ManifestEntry& entry) {
  Handle object = storage::create_hdf5_dataset(file_.get(), entry.name.c_str(), hdf5_type(entry).get(), entry.shape,
                                               link_creation_.get(), dataset_creation_.get());
  if (!object || (entry.kind == Kind::Tensor && !write_tensor_attributes(object.get(), entry))) {
    return failure(entry.name);
  }
  checksums_.push_back(storage::create_uint32_attribute(object.get(), schema::kCrcAttribute));
  const haddr_t offset = H5Dget_offset(object.get());
  const bool placed = offset != HADDR_UNDEF || entry.bytes == 0;
  if (!placed || !object.close()) {
    return failure(entry.name);
  }
  entry.offset = entry.bytes == 0 ? 0 : offset;
  return {};
}

bool Hdf5Structures::write_checksums(const std::vector<ManifestEntry>& datasets) {
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (!write_checksum(checksums_[i], datasets[i].crc32c)) {
      return false;
    }
  }
  return true;
}

Result<ManifestEntry> Hdf5Structures::finish(const Manifest& manifest) {
  const std::string text = manifest_to_json(manifest);
  ManifestEntry own;
  own.name = schema::kManifest;
  own.kind = Kind::Value;
  own.type = schema::kText;
  own.element_bytes = own.bytes = text.size();
  own.crc32c = storage::crc32c(std::as_bytes(std::span(text)));
  RETURN_IF_ERROR(create_dataset(own));
  Handle object(H5Dopen2(file_.get(), schema::kManifest, H5P_DEFAULT), H5Dclose);
  const bool written =
      object && H5Dwrite(object.get(), hdf5_type(own).get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) >= 0 &&
      object.close() && write_checksum(checksums_.back(), own.crc32c) && write_checksums(manifest.datasets) &&
      storage::update_flag_attribute(file_.get(), schema::kCompleteAttribute, true);
  if (!written || !file_.close()) {
    return failure("");
  }
  return own;
}

Result<void> Hdf5Structures::check(const std::vector<ManifestEntry>& datasets) const {
  const std::string opened = storage::hdf5_path(made_, path_);
  const Handle file(H5Fopen(opened.c_str(), H5F_ACC_RDONLY, storage::hdf5_file_access().get()), H5Fclose);
  const auto in_place = [&file](const ManifestEntry& entry) {
    const Handle object(H5Dopen2(file.get(), entry.name.c_str(), H5P_DEFAULT), H5Dclose);
    return object && storage::read_uint32_attribute(object.get(), schema::kCrcAttribute) == entry.crc32c &&
           (entry.bytes == 0 || H5Dget_offset(object.get()) == entry.offset);
  };
  if (!file || storage::read_uint32_attribute(file.get(), schema::kCompleteAttribute) != 1U ||
      !std::all_of(datasets.begin(), datasets.end(), in_place)) {
    return wrong_content(path_, "HDF5's structures are invalid");
  }
  return {};
}

}  // namespace rollcall::checkpoint::format
