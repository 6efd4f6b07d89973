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

/// Owns one HDF5 identifier and closes it with the function that belongs to its kind. Move only. HDF5's serial library
/// is not thread-safe: everything in this folder that takes or makes a Handle is to be called by one thread at a time.
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
  /// Closes now; false where HDF5 could not (for a file: it could not write what it still held). Nothing to close is
  /// success.
  [[nodiscard]] bool close();

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// HDF5 prints its error stack to stderr by default; after this call it does not (in this thread), but the reason is
/// kept for hdf5_reason(). Call before any other call of HDF5.
void silence_hdf5();

/// Why the latest failed call of HDF5 in this thread failed: the system's own words where a system call was the cause
/// ("No space left on device"), else HDF5's innermost description.
[[nodiscard]] std::string hdf5_reason();

/// A name under which HDF5 opens the very file that `file` has open, whatever lies at `path`, its own name, by now;
/// valid as long as `file` is open. `path` itself where there is no /proc.
[[nodiscard]] std::string hdf5_path(const File& file, const std::string& path);

/// Fixed-length UTF-8 text of `length` >= 1 bytes, padded with NUL. (Variable-length texts lie in a heap without
/// checksums.)
[[nodiscard]] Handle hdf5_text_type(std::size_t length);

/// The access properties of every open: no file locking, which fails on some network mounts, and the format of
/// HDF5 1.8, in which all structures carry checksums.
[[nodiscard]] Handle hdf5_file_access();

/// The creation properties of data sets: contiguous, their room in the file given at once and left unwritten, no times.
[[nodiscard]] Handle hdf5_dataset_creation();

/// A new data set; `shape` empty: a scalar. The property lists may be H5P_DEFAULT.
[[nodiscard]] Handle create_hdf5_dataset(hid_t file, const char* name, hid_t type, std::span<const std::int64_t> shape,
                                         hid_t link_creation, hid_t dataset_creation);

/// Attributes of an object; false where HDF5 refused.
[[nodiscard]] bool write_text_attribute(hid_t object, const char* name, std::string_view text);
[[nodiscard]] bool write_uint32_attribute(hid_t object, const char* name, std::uint32_t value);
[[nodiscard]] bool write_flag_attribute(hid_t object, const char* name, bool value);
/// Creates an attribute without a value and leaves it open.
[[nodiscard]] Handle create_uint32_attribute(hid_t object, const char* name);
/// Sets an existing flag.
[[nodiscard]] bool update_flag_attribute(hid_t object, const char* name, bool value);

/// Nothing where the attribute is absent or of another kind.
[[nodiscard]] std::optional<std::uint32_t> read_uint32_attribute(hid_t object, const char* name);

}  // namespace rollcall::storage
