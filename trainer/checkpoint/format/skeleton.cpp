#include "trainer/checkpoint/format/skeleton.h"

#include <fmt/format.h>

#include <ctime>
#include <optional>

#include "trainer/checkpoint/format/durable_file.h"
#include "trainer/checkpoint/format/hdf5_objects.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/hdf5_objects.h"

namespace rollcall::checkpoint::format {
namespace {

/// ISO 8601 in UTC: "2025-01-31T23:59:59Z".
std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

bool write_root_attributes(hid_t file, const WriterOptions& options) {
  const std::string version = fmt::format("{}.{}", schema::kMajorVersion, schema::kMinorVersion);
  return storage::write_text_attribute(file, schema::kFormatAttribute, schema::kFormat) &&
         storage::write_text_attribute(file, schema::kVersionAttribute, version) &&
         storage::write_text_attribute(file, schema::kWriterAttribute, options.writer) &&
         storage::write_text_attribute(file, schema::kTorchVersionAttribute, options.torch_version) &&
         storage::write_text_attribute(file, schema::kCreatedAttribute, now_text()) &&
         storage::write_flag_attribute(file, schema::kCompleteAttribute, false);
}

bool write_dataset_attributes(hid_t object, const Dataset& dataset) {
  if (!storage::write_uint32_attribute(object, schema::kCrcAttribute, dataset.crc32c)) {
    return false;
  }
  const TensorView* const tensor = dataset.tensor;
  return tensor == nullptr ||
         (storage::write_text_attribute(object, schema::kDTypeAttribute, dtype_name(tensor->dtype)) &&
          storage::write_text_attribute(object, schema::kDimOrderAttribute, schema::kRowMajor) &&
          storage::write_text_attribute(object, schema::kStateDictKeyAttribute, tensor->state_dict_key));
}

/// Contiguous, its room in the file given at once and left unwritten.
storage::Handle dataset_creation_properties() {
  storage::Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_layout(properties.get(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(properties.get(), false);
  return properties;
}

/// The new data set's offset in the file, or nothing where HDF5 refused.
std::optional<off_t> create_dataset(hid_t file, const Dataset& dataset) {
  const int rank = static_cast<int>(dataset.shape.size());
  const storage::Handle space(rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, dataset.shape.data(), nullptr),
                              H5Sclose);
  const storage::Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  const storage::Handle properties = dataset_creation_properties();
  storage::Handle object(H5Dcreate2(file, dataset.path.c_str(), dataset.type.get(), space.get(), links.get(),
                                    properties.get(), H5P_DEFAULT),
                         H5Dclose);
  if (!object || !write_dataset_attributes(object.get(), dataset)) {
    return std::nullopt;
  }
  const haddr_t offset = H5Dget_offset(object.get());
  const bool placed = offset != HADDR_UNDEF || dataset.bytes.empty();
  if (!placed || !object.close()) {
    return std::nullopt;
  }
  return dataset.bytes.empty() ? 0 : static_cast<off_t>(offset);
}

Error cannot_write(const std::string& path, const std::string& reason) {
  return fail("checkpoint", path, "cannot be written: " + reason, advice_for_write_failure(), ExitCode::InputOutput);
}

}  // namespace

Result<std::vector<off_t>> create_skeleton(const std::string& path, const std::vector<Dataset>& datasets,
                                           const WriterOptions& options) {
  storage::silence_hdf5();
  storage::Handle file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, storage::hdf5_file_access().get()), H5Fclose);
  if (!file) {
    return fail("checkpoint", path, "cannot be created: " + storage::hdf5_reason(),
                "making the folder writable or setting --checkpoint-dir to another one", ExitCode::CannotCreate);
  }
  if (!write_root_attributes(file.get(), options)) {
    return cannot_write(path, storage::hdf5_reason());
  }
  std::vector<off_t> offsets;
  offsets.reserve(datasets.size());
  for (const Dataset& dataset : datasets) {
    const auto offset = create_dataset(file.get(), dataset);
    if (!offset) {
      return cannot_write(path, storage::hdf5_reason() + " (" + dataset.path + ")");
    }
    offsets.push_back(*offset);
  }
  if (!file.close()) {
    return cannot_write(path, storage::hdf5_reason());
  }
  return offsets;
}

Result<void> mark_complete(const std::string& path) {
  storage::silence_hdf5();
  storage::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, storage::hdf5_file_access().get()), H5Fclose);
  if (!file || !storage::update_flag_attribute(file.get(), schema::kCompleteAttribute, true) || !file.close()) {
    return cannot_write(path, storage::hdf5_reason());
  }
  return {};
}

}  // namespace rollcall::checkpoint::format
