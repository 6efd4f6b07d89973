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

/// The structures of an HDF5 file, read without the HDF5 library: version 1.10 of it crashes on forged ones. Of HDF5
/// File Format Specification 3.0 this knows what the library writes under H5F_LIBVER_V18 where all links and attributes
/// lie in object headers (versions: superblock 2, object header 2, attribute 3, data layout 3). Takes any bytes, in
/// bounded memory. Thread-safe.
namespace rollcall::storage {

/// HDF5's checksum of its structures: Jenkins's lookup3.
[[nodiscard]] std::uint32_t hdf5_checksum(std::span<const std::byte> bytes);

/// What the elements of an attribute or data set are.
struct Hdf5Type {
  /// Numbers are little-endian, without padding bits; texts of a fixed length.
  enum class Kind { Other, Unsigned, Signed, Text };
  Kind kind = Kind::Other;
  std::uint64_t bytes = 0;

  friend bool operator==(const Hdf5Type&, const Hdf5Type&) = default;
};

/// A contiguous data set of one dimension, as it says of itself: it may lie anywhere.
struct Hdf5Row {
  Hdf5Type type;
  std::uint64_t start = 0;  ///< first byte, from the beginning of the file; 0 where there is no element
  std::uint64_t elements = 0;
};

/// The header of a group or data set.
class Hdf5Header {
 public:
  /// Reads the header of the root group. Errors, without the file's name: NoInput: not an HDF5 file; BadData:
  /// truncated, damaged; Mismatch: structures of another version.
  [[nodiscard]] static Result<Hdf5Header> of_root(const File& file, std::uint64_t file_bytes);

  /// Of the object of this name in this group; nothing where there is none or it is damaged.
  [[nodiscard]] std::optional<Hdf5Header> child(const File& file, std::string_view name) const;

  /// Attributes; nothing where there is none of this name and kind. A number has at most 32 bits.
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view name) const;

  /// What the data set is; nothing where it is none, or stored otherwise.
  [[nodiscard]] std::optional<Hdf5Row> row() const;

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
