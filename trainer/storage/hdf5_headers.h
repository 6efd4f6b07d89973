#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/storage/file.h"

/// Reads the structures of an HDF5 file without the HDF5 library, whose version 1.10 crashes on forged ones. Supports
/// the part of HDF5 File Format Specification 3.0 that the library writes under H5F_LIBVER_V18 if all links and
/// attributes are in object headers (versions: superblock 2, object header 2, attribute 3, data layout 3). Accepts any
/// bytes, in bounded memory. Thread-safe.
namespace rollcall::storage {

/// Returns HDF5's checksum of its structures: Jenkins's lookup3.
[[nodiscard]] std::uint32_t hdf5_checksum(std::span<const std::byte> bytes);

/// The type of the elements of an attribute or data set.
struct Hdf5Type {
  /// Numbers are little-endian without padding bits; texts have a fixed length.
  enum class Kind { Other, Unsigned, Signed, Text };
  Kind kind = Kind::Other;
  std::uint64_t bytes = 0;

  friend bool operator==(const Hdf5Type&, const Hdf5Type&) = default;
};

/// A contiguous data set of one dimension, as its header describes it; its location is not checked.
struct Hdf5Array {
  Hdf5Type type;
  std::uint64_t start = 0;  ///< offset of the first byte in the file; 0 if there are no elements
  std::uint64_t elements = 0;
};

/// The object header of a group or data set.
class Hdf5Header {
 public:
  /// Reads the header of the root group. Errors, without the file's name: NoInput: not an HDF5 file; BadData:
  /// truncated, damaged; Mismatch: structures of another version.
  [[nodiscard]] static Result<Hdf5Header> read_root(const File& file, std::uint64_t file_bytes);

  /// Returns the header of the object of this name in the group; nothing if there is none or it is damaged.
  [[nodiscard]] std::optional<Hdf5Header> child(const File& file, std::string_view name) const;

  /// Return an attribute; nothing if there is none of this name and type. A number has at most 32 bits.
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view name) const;

  /// Returns the description of the data set; nothing if the object is not a data set or has another layout.
  [[nodiscard]] std::optional<Hdf5Array> array() const;

 private:
  struct Message {
    std::uint8_t type = 0;
    std::vector<std::byte> body;
  };
  struct Attribute;

  [[nodiscard]] static std::optional<Hdf5Header> at(const File& file, std::uint64_t address);
  [[nodiscard]] bool take_messages(std::span<const std::byte> bytes, bool ordered);
  [[nodiscard]] bool take_continuations(const File& file, std::uint64_t total, bool ordered);
  [[nodiscard]] std::optional<std::span<const std::byte>> body_of(std::uint8_t type) const;
  [[nodiscard]] std::optional<Attribute> attribute(std::string_view name) const;

  std::vector<Message> messages_;
};

}  // namespace rollcall::storage
