#pragma once

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/storage/file.h"

namespace rollcall::storage {

/// Owns one HDF5 identifier and closes it with the function of its kind. Move only. HDF5's serial library is not
/// thread-safe: only one thread at a time may call the functions of this folder that take or return a Handle.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Close close_function) : id_(id), close_(close_function) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { static_cast<void>(close()); }

  explicit operator bool() const { return id_ >= 0; }
  [[nodiscard]] hid_t get() const { return id_; }
  /// Closes now. Returns false if HDF5 failed (for a file: it could not write buffered data). Closing an empty handle
  /// succeeds.
  [[nodiscard]] bool close();

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// Stops HDF5 from printing its error stack to stderr in this thread; the reason is kept for hdf5_reason(). Call before
/// any other HDF5 function.
void silence_hdf5();

/// Returns why the latest failed HDF5 call in this thread failed: the system's text if a system call was the cause ("No
/// space left on device"), else HDF5's innermost description.
[[nodiscard]] std::string hdf5_reason();
/// Returns errno of the system call that caused it; 0 if none did.
[[nodiscard]] int hdf5_errno();

/// Returns a name by which HDF5 opens exactly the file that `file` has open, even if `path`, its name, now leads
/// elsewhere; valid while `file` is open. Returns `path` if there is no /proc.
[[nodiscard]] std::string hdf5_path(const File& file, const std::string& path);

/// Returns the type of UTF-8 strings of a fixed length of `length` >= 1 bytes, padded with NUL. (Variable-length
/// strings are stored in a heap without checksums.)
[[nodiscard]] Handle hdf5_text_type(std::size_t length);

/// Returns the access properties for opening files: no file locking, which fails on some network mounts, and the format
/// of HDF5 1.8, in which all structures have checksums.
[[nodiscard]] Handle hdf5_file_access();

/// Returns the creation properties of data sets: contiguous, allocated at once in the file but not written, no time
/// stamps.
[[nodiscard]] Handle hdf5_dataset_creation();

/// Creates a data set; an empty `shape` makes a scalar. The property lists may be H5P_DEFAULT.
[[nodiscard]] Handle create_hdf5_dataset(hid_t file, const char* name, hid_t type, std::span<const std::int64_t> shape,
                                         hid_t link_creation, hid_t dataset_creation);

/// Write an attribute of an object; return false if HDF5 failed.
[[nodiscard]] bool write_text_attribute(hid_t object, const char* name, std::string_view text);
[[nodiscard]] bool write_uint32_attribute(hid_t object, const char* name, std::uint32_t value);
[[nodiscard]] bool write_flag_attribute(hid_t object, const char* name, bool value);
/// Creates an attribute without a value and leaves it open.
[[nodiscard]] Handle create_uint32_attribute(hid_t object, const char* name);
/// Sets an existing flag.
[[nodiscard]] bool update_flag_attribute(hid_t object, const char* name, bool value);

/// Returns nothing if the attribute does not exist or has another type.
[[nodiscard]] std::optional<std::uint32_t> read_uint32_attribute(hid_t object, const char* name);

}  // namespace rollcall::storage
