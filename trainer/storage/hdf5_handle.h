#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

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

}  // namespace rollcall::storage
