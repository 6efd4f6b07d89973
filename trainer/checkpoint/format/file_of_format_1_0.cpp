#include "trainer/checkpoint/format/file_of_format_1_0.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/crc.h"
#include "trainer/storage/hdf5.h"

namespace rollcall::checkpoint::format {
namespace {

using storage::Handle;

Error damaged(const std::string& path, const std::string& reason) {
  return fail("checkpoint", path, reason, "an earlier checkpoint", ExitCode::BadData);
}

std::optional<std::vector<std::int64_t>> shape_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || H5Sget_simple_extent_type(space) == H5S_NULL) {
    return std::nullopt;
  }
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space, dims.data(), nullptr) < 0) {
    return std::nullopt;
  }
  return std::vector<std::int64_t>(dims.begin(), dims.end());
}

std::string value_type(hid_t type) {
  if (H5Tget_class(type) == H5T_STRING) {
    return H5Tis_variable_str(type) != 0 ? "" : schema::kText;
  }
  if (H5Tequal(type, H5T_STD_I64LE) > 0) {
    return schema::kInt64;
  }
  if (H5Tequal(type, H5T_STD_U64LE) > 0) {
    return schema::kUInt64;
  }
  return H5Tequal(type, H5T_IEEE_F64LE) > 0 ? schema::kFloat64 : "";
}

/// False where the data set is not as `entry`, which has name, bytes and checksum, says.
bool complete_entry(hid_t file, ManifestEntry& entry) {
  const Handle object(H5Dopen2(file, entry.name.c_str(), H5P_DEFAULT), H5Dclose);
  const Handle type(object ? H5Dget_type(object.get()) : H5I_INVALID_HID, H5Tclose);
  const Handle space(object ? H5Dget_space(object.get()) : H5I_INVALID_HID, H5Sclose);
  const auto shape = space ? shape_of(space.get()) : std::nullopt;
  if (!type || !shape) {
    return false;
  }
  entry.shape = *shape;
  entry.element_bytes = H5Tget_size(type.get());
  if (const auto dtype = storage::read_text_attribute(object.get(), schema::kDTypeAttribute)) {
    entry.kind = Kind::Tensor;
    entry.type = *dtype;
    entry.state_dict_key = storage::read_text_attribute(object.get(), schema::kStateDictKeyAttribute).value_or("");
  } else {
    entry.kind = Kind::Value;
    entry.type = value_type(type.get());
  }
  const auto known = dtype_from_name(entry.type);
  const haddr_t offset = H5Dget_offset(object.get());
  entry.offset = offset == HADDR_UNDEF ? 0 : offset;
  return (entry.bytes == 0 || offset != HADDR_UNDEF) &&
         (entry.kind != Kind::Tensor || !known || dtype_size(*known) == entry.element_bytes);
}

/// The text of /manifest; nothing where it is damaged.
std::optional<std::string> manifest_text(hid_t file, std::uint64_t file_bytes) {
  const Handle object(H5Dopen2(file, schema::kManifest, H5P_DEFAULT), H5Dclose);
  const auto crc = object ? storage::read_uint32_attribute(object.get(), schema::kCrcAttribute) : std::nullopt;
  const Handle type(object ? H5Dget_type(object.get()) : H5I_INVALID_HID, H5Tclose);
  const Handle space(object ? H5Dget_space(object.get()) : H5I_INVALID_HID, H5Sclose);
  const bool text = crc && type && space && H5Tget_class(type.get()) == H5T_STRING &&
                    H5Tis_variable_str(type.get()) == 0 && H5Sget_simple_extent_npoints(space.get()) == 1 &&
                    H5Tget_size(type.get()) <= file_bytes;
  std::string bytes(text ? H5Tget_size(type.get()) : 0, '\0');
  if (!text || H5Dread(object.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0 ||
      storage::crc32c(std::as_bytes(std::span(bytes))) != *crc) {
    return std::nullopt;
  }
  return bytes;
}

Result<Manifest> read_info(const std::string& path, hid_t root) {
  Manifest manifest;
  if (storage::read_text_attribute(root, schema::kFormatAttribute) != schema::kFormat) {
    return damaged(path, fmt::format("is damaged or not of format {}", schema::kFormat));
  }
  FileInfo& info = manifest.info;
  info.format_version = storage::read_text_attribute(root, schema::kVersionAttribute).value_or("");
  const auto parts = split(info.format_version, '.');
  const auto major = parts.empty() ? std::nullopt : parse_integer<int>(parts.front());
  if (major && *major > schema::kMajorVersion) {
    return newer_format(path, info.format_version);
  }
  if (info.format_version != "1.0") {
    return damaged(path, "has no seal: another program wrote the file anew");
  }
  if (storage::read_uint32_attribute(root, schema::kCompleteAttribute) != 1U) {
    return damaged(path, "was never finished");
  }
  info.writer = storage::read_text_attribute(root, schema::kWriterAttribute).value_or("");
  info.torch_version = storage::read_text_attribute(root, schema::kTorchVersionAttribute).value_or("");
  info.created = storage::read_text_attribute(root, schema::kCreatedAttribute).value_or("");
  manifest.piece_bytes = std::numeric_limits<std::uint64_t>::max();
  return manifest;
}

Result<Manifest> read_in_this_process(const storage::File& opened, const std::string& path) {
  storage::silence_hdf5();
  const std::string name = storage::hdf5_path(opened, path);
  const Handle file(H5Fopen(name.c_str(), H5F_ACC_RDONLY, storage::hdf5_file_access().get()), H5Fclose);
  if (!file) {
    return damaged(path, "is damaged or no HDF5 file: " + storage::hdf5_reason());
  }
  auto manifest = read_info(path, file.get());
  if (!manifest) {
    return manifest;
  }
  hsize_t file_bytes = 0;
  const bool sized = H5Fget_filesize(file.get(), &file_bytes) >= 0;
  const auto text = sized ? manifest_text(file.get(), file_bytes) : std::nullopt;
  const auto json = nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("datasets") || !json["datasets"].is_array()) {
    return damaged(path, fmt::format("is damaged: {} cannot be read", schema::kManifest));
  }
  for (const auto& row : json["datasets"]) {
    ManifestEntry& entry = manifest->datasets.emplace_back();
    entry.name = row.at("name").get<std::string>();
    entry.bytes = row.at("bytes").get<std::uint64_t>();
    entry.crc32c = row.at("crc32c").get<std::uint32_t>();
    if (!complete_entry(file.get(), entry)) {
      return damaged(path, fmt::format("is damaged: {} cannot be read", entry.name));
    }
  }
  return manifest;
}

// What the child tells: 'M' and a manifest, or 'E', an exit code as one byte, and "reason\0action".

std::string answer_for(const storage::File& file, const std::string& path) {
  try {
    const auto manifest = read_in_this_process(file, path);
    if (manifest) {
      return "M" + manifest_to_json(*manifest);
    }
    const Error& error = manifest.error();
    return std::string{'E', static_cast<char>(to_int(error.exit_code))} + error.reason + '\0' + error.action;
  } catch (const std::exception& error) {
    return std::string{'E', static_cast<char>(to_int(ExitCode::BadData))} + "is damaged: " + error.what() + '\0' +
           "an earlier checkpoint";
  }
}

[[noreturn]] void answer_and_exit(const storage::File& file, const std::string& path, int out) {
  ::alarm(60);
  const std::string answer = answer_for(file, path);
  for (std::size_t at = 0; at < answer.size();) {
    const ssize_t written = ::write(out, answer.data() + at, answer.size() - at);
    if (written <= 0) {
      break;
    }
    at += static_cast<std::size_t>(written);
  }
  ::_exit(0);
}

std::string read_to_end(int in) {
  std::string text;
  std::array<char, 65536> buffer{};
  for (ssize_t count = 1; count > 0 || (count < 0 && errno == EINTR);) {
    count = ::read(in, buffer.data(), buffer.size());
    text.append(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return text;
}

Result<Manifest> manifest_in(const std::string& answer, const std::string& path) {
  auto manifest = answer.starts_with('M') ? manifest_from_json(std::string_view(answer).substr(1)) : std::nullopt;
  if (manifest) {
    return *std::move(manifest);
  }
  const auto parts =
      answer.size() > 2 && answer.front() == 'E' ? split(answer.substr(2), '\0') : std::vector<std::string>();
  if (parts.size() != 2) {
    return damaged(path, "is damaged: the HDF5 library crashed on its structures");
  }
  return fail("checkpoint", path, parts[0], parts[1], static_cast<ExitCode>(answer[1]));
}

}  // namespace

bool starts_as_hdf5(std::span<const std::byte> bytes) {
  constexpr std::array<unsigned char, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  return bytes.size() >= kSignature.size() && std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) == 0;
}

Error newer_format(const std::string& path, const std::string& version) {
  return fail("checkpoint", path,
              fmt::format("has format version {}, and this program reads up to {}.x", version, schema::kMajorVersion),
              "a newer rollcall", ExitCode::Mismatch);
}

Result<Manifest> manifest_of_format_1_0(const storage::File& file, const std::string& path) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail("checkpoint", path, "no pipe for reading it: " + errno_text(errno), "", ExitCode::InputOutput);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    answer_and_exit(file, path, ends[1]);
  }
  const int error_number = errno;
  ::close(ends[1]);
  const std::string answer = child > 0 ? read_to_end(ends[0]) : "";
  ::close(ends[0]);
  if (child < 0) {
    return fail("checkpoint", path, "no process for reading it: " + errno_text(error_number), "raising ulimit -u",
                ExitCode::InputOutput);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return manifest_in(answer, path);
}

}  // namespace rollcall::checkpoint::format
