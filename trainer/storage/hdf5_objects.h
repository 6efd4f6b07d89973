#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/storage/hdf5_handle.h"

namespace rollcall::storage {

/// Fixed-length UTF-8 text of `length` >= 1 bytes, padded with NUL. (Variable-length texts lie in a heap without
/// checksums.)
[[nodiscard]] Handle hdf5_text_type(std::size_t length);

/// The access properties of every open: no file locking, which fails on some network mounts, and the format of
/// HDF5 1.8, in which all structures carry checksums.
[[nodiscard]] Handle hdf5_file_access();

/// Attributes of an object; false where HDF5 refused.
[[nodiscard]] bool write_text_attribute(hid_t object, const char* name, std::string_view text);
[[nodiscard]] bool write_uint32_attribute(hid_t object, const char* name, std::uint32_t value);
[[nodiscard]] bool write_flag_attribute(hid_t object, const char* name, bool value);
/// Creates an attribute without a value and leaves it open.
[[nodiscard]] Handle create_uint32_attribute(hid_t object, const char* name);
/// Sets an existing flag.
[[nodiscard]] bool update_flag_attribute(hid_t object, const char* name, bool value);

/// Nothing where the attribute is absent or of another kind.
[[nodiscard]] std::optional<std::string> read_text_attribute(hid_t object, const char* name);
[[nodiscard]] std::optional<std::uint32_t> read_uint32_attribute(hid_t object, const char* name);

}  // namespace rollcall::storage
