#include "trainer/storage/hdf5.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <vector>

namespace rollcall::storage {
namespace {

thread_local std::string latest_reason;

herr_t keep_innermost(unsigned /*depth*/, const H5E_error2_t* error, void* text) {
  if (error->desc != nullptr) {
    *static_cast<std::string*>(text) = error->desc;
  }
  return 0;
}

/// HDF5 calls this instead of printing. Its error stack is lost with the next call into HDF5, even one that only
/// closes.
herr_t remember_reason(hid_t stack, void* /*unused*/) {
  latest_reason.clear();
  return H5Ewalk2(stack, H5E_WALK_DOWNWARD, keep_innermost, &latest_reason);
}

bool write_attribute(hid_t object, const char* name, hid_t type, const void* value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  Handle attribute(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  return attribute && H5Awrite(attribute.get(), type, value) >= 0 && attribute.close();
}

Handle open_attribute(hid_t object, const char* name) {
  return H5Aexists(object, name) > 0 ? Handle(H5Aopen(object, name, H5P_DEFAULT), H5Aclose) : Handle();
}

}  // namespace

bool Handle::close() {
  if (id_ < 0) {
    return true;
  }
  return close_(std::exchange(id_, H5I_INVALID_HID)) >= 0;
}

void silence_hdf5() {
  // Damaged files leave objects in HDF5 that it cannot close; its clean-up at exit would print errors to stderr.
  [[maybe_unused]] static const herr_t no_clean_up_at_exit = H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, remember_reason, nullptr);
}

std::string hdf5_reason() {
  if (latest_reason.empty()) {
    return "HDF5 gave no reason";
  }
  constexpr std::string_view kSystem = "error message = '";  // how HDF5's file driver reports errno
  const auto begin = latest_reason.find(kSystem);
  if (begin == std::string::npos) {
    return latest_reason;
  }
  const auto words = begin + kSystem.size();
  return latest_reason.substr(words, latest_reason.find('\'', words) - words);
}

int hdf5_errno() {
  constexpr std::string_view kErrno = "errno = ";
  const auto begin = latest_reason.find(kErrno);
  return begin == std::string::npos ? 0
                                    : static_cast<int>(std::strtol(&latest_reason[begin + kErrno.size()], nullptr, 10));
}

std::string hdf5_path(const File& file, const std::string& path) {
  const std::string opened = fmt::format("/proc/self/fd/{}", file.descriptor());
  return ::access(opened.c_str(), F_OK) == 0 ? opened : path;
}

Handle hdf5_text_type(std::size_t length) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), length);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  return type;
}

Handle hdf5_file_access() {
  constexpr hsize_t kLarge = hsize_t{64} << 10U;
  constexpr hsize_t kPage = 4096;
  Handle properties(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(properties.get(), H5F_LIBVER_V18, H5F_LIBVER_V18);
  H5Pset_alignment(properties.get(), kLarge, kPage);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(properties.get(), /*use_file_locking=*/false, /*ignore_when_disabled=*/true);
#endif
  return properties;
}

Handle hdf5_dataset_creation() {
  Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_layout(properties.get(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(properties.get(), false);
  return properties;
}

Handle create_hdf5_dataset(hid_t file, const char* name, hid_t type, std::span<const std::int64_t> shape,
                           hid_t link_creation, hid_t dataset_creation) {
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const Handle space(extents.empty() ? H5Screate(H5S_SCALAR)
                                     : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                     H5Sclose);
  return {H5Dcreate2(file, name, type, space.get(), link_creation, dataset_creation, H5P_DEFAULT), H5Dclose};
}

bool write_text_attribute(hid_t object, const char* name, std::string_view text) {
  std::string padded(text);
  padded.resize(std::max<std::size_t>(padded.size(), 1));
  return write_attribute(object, name, hdf5_text_type(padded.size()).get(), padded.data());
}

bool write_uint32_attribute(hid_t object, const char* name, std::uint32_t value) {
  return write_attribute(object, name, H5T_STD_U32LE, &value);
}

Handle create_uint32_attribute(hid_t object, const char* name) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  return {H5Acreate2(object, name, H5T_STD_U32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose};
}

bool write_flag_attribute(hid_t object, const char* name, bool value) {
  const std::uint8_t byte = value ? 1 : 0;
  return write_attribute(object, name, H5T_STD_U8LE, &byte);
}

bool update_flag_attribute(hid_t object, const char* name, bool value) {
  const std::uint8_t byte = value ? 1 : 0;
  Handle attribute = open_attribute(object, name);
  return attribute && H5Awrite(attribute.get(), H5T_STD_U8LE, &byte) >= 0 && attribute.close();
}

std::optional<std::uint32_t> read_uint32_attribute(hid_t object, const char* name) {
  const Handle attribute = open_attribute(object, name);
  const Handle type(attribute ? H5Aget_type(attribute.get()) : H5I_INVALID_HID, H5Tclose);
  const Handle space(attribute ? H5Aget_space(attribute.get()) : H5I_INVALID_HID, H5Sclose);
  const bool number = type && H5Tget_class(type.get()) == H5T_INTEGER;
  std::uint32_t value = 0;
  if (!number || !space || H5Sget_simple_extent_npoints(space.get()) != 1 ||
      H5Aread(attribute.get(), H5T_NATIVE_UINT32, &value) < 0) {
    return std::nullopt;
  }
  return value;
}

}  // namespace rollcall::storage
