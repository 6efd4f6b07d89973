#include "trainer/checkpoint/format/skeleton.h"

#include <algorithm>
#include <utility>

#include "trainer/checkpoint/format/blocks.h"
#include "trainer/checkpoint/format/hdf5_objects.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/format/seal.h"
#include "trainer/checkpoint/format/write_failure.h"
#include "trainer/storage/crc32c.h"
#include "trainer/storage/hdf5_objects.h"

namespace rollcall::checkpoint::format {
namespace {

using storage::Handle;

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

/// HDF5 takes room for its structures in blocks of this size, so that they do not lie scattered among the data: what
/// about so many data sets with their attributes need.
hsize_t structure_block_bytes(std::size_t datasets) {
  constexpr hsize_t kPerDataset = 768;
  constexpr hsize_t kPage = 4096;
  return (datasets * kPerDataset + 2 * kPage) / kPage * kPage;
}

Handle file_access(std::size_t datasets) {
  Handle properties = storage::hdf5_file_access();
  H5Pset_alignment(properties.get(), /*threshold=*/1, kAlignment);
  H5Pset_meta_block_size(properties.get(), structure_block_bytes(datasets));
  H5Pset_small_data_block_size(properties.get(), 0);  // no room between small data sets
  return properties;
}

Handle file_creation() {
  Handle properties(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_userblock(properties.get(), kUserBlockBytes);
  return properties;
}

/// Contiguous, its room in the file given at once and left unwritten.
Handle dataset_creation() {
  Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_layout(properties.get(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(properties.get(), false);
  return properties;
}

Handle link_creation() {
  Handle properties(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(properties.get(), 1);
  return properties;
}

Handle new_dataset(hid_t file, const ManifestEntry& entry, const Handle& links, const Handle& creation) {
  const Handle type = hdf5_type(entry);
  const std::vector<hsize_t> shape(entry.shape.begin(), entry.shape.end());
  const Handle space(
      shape.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
      H5Sclose);
  return {H5Dcreate2(file, entry.name.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT),
          H5Dclose};
}

bool write_checksum(Handle& attribute, std::uint32_t checksum) {
  return attribute && H5Awrite(attribute.get(), H5T_STD_U32LE, &checksum) >= 0 && attribute.close();
}

}  // namespace

Skeleton::Skeleton(std::string path, Handle file)
    : path_(std::move(path)),
      file_(std::move(file)),
      link_creation_(link_creation()),
      dataset_creation_(dataset_creation()) {}

Error Skeleton::failure(const std::string& what) const {
  return write_failure(path_, "cannot be written: " + storage::hdf5_reason() + (what.empty() ? "" : " (" + what + ")"));
}

Result<Skeleton> Skeleton::create(const std::string& path, const FileInfo& info, std::vector<ManifestEntry>& datasets) {
  storage::silence_hdf5();
  Skeleton skeleton(
      path, Handle(H5Fcreate(path.c_str(), H5F_ACC_EXCL, file_creation().get(), file_access(datasets.size()).get()),
                   H5Fclose));
  if (!skeleton.file_) {
    return fail("checkpoint", path, "cannot be created: " + storage::hdf5_reason(),
                "making the folder writable or setting --checkpoint-dir to another one", ExitCode::CannotCreate);
  }
  if (!write_root_attributes(skeleton.file_.get(), info)) {
    return skeleton.failure("");
  }
  for (ManifestEntry& entry : datasets) {
    if (Result<void> created = skeleton.create_dataset(entry); !created) {
      return created.error();
    }
  }
  return skeleton;
}

Result<void> Skeleton::create_dataset(ManifestEntry& entry) {
  Handle object = new_dataset(file_.get(), entry, link_creation_, dataset_creation_);
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

bool Skeleton::write_checksums(const std::vector<ManifestEntry>& datasets) {
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (!write_checksum(checksums_[i], datasets[i].crc32c)) {
      return false;
    }
  }
  return true;
}

Result<ManifestEntry> Skeleton::finish(const Manifest& manifest) {
  const std::string text = manifest_to_json(manifest);
  ManifestEntry own;
  own.name = schema::kManifest;
  own.kind = Kind::Metadata;
  own.type = schema::kText;
  own.element_bytes = own.bytes = text.size();
  own.crc32c = storage::crc32c(std::as_bytes(std::span(text)));
  if (Result<void> created = create_dataset(own); !created) {
    return created.error();
  }
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

Result<void> check_structures(const std::string& path, const std::vector<ManifestEntry>& datasets) {
  storage::silence_hdf5();
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, storage::hdf5_file_access().get()), H5Fclose);
  const auto in_place = [&file](const ManifestEntry& entry) {
    const Handle object(H5Dopen2(file.get(), entry.name.c_str(), H5P_DEFAULT), H5Dclose);
    return object && storage::read_uint32_attribute(object.get(), schema::kCrcAttribute) == entry.crc32c &&
           (entry.bytes == 0 || H5Dget_offset(object.get()) == entry.offset);
  };
  if (!file || storage::read_uint32_attribute(file.get(), schema::kCompleteAttribute) != 1U ||
      !std::all_of(datasets.begin(), datasets.end(), in_place)) {
    return write_failure(path, "reading back what was written failed: HDF5's structures are not in order");
  }
  return {};
}

}  // namespace rollcall::checkpoint::format
