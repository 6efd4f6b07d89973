#include "trainer/checkpoint/format/reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "runtime/base/owned_file.h"
#include "trainer/checkpoint/format/commit_header.h"
#include "trainer/checkpoint/format/parallel_for.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::format {
namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{256}
                                      << 10U;  ///< small enough that a core's cache still holds it for the checksum
constexpr std::uint64_t kLargestManifest = std::uint64_t{1} << 30U;

/// Returns whether it is an HDF5 file without a user block.
bool starts_as_hdf5(std::span<const std::byte> bytes) {
  constexpr std::array<unsigned char, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  return bytes.size() >= kSignature.size() && std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) == 0;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Divides a request at the ends of pieces, so that threads share even a single large tensor. Several requests of one
/// piece would read it several times, which no caller does.
void cut_at_pieces(const ReadRequest& request, std::uint64_t piece_bytes, std::vector<ReadRequest>& parts) {
  assert(request.first_byte <= request.entry->bytes &&
         request.into.size() <= request.entry->bytes - request.first_byte);
  std::uint64_t at = request.first_byte;
  std::span<std::byte> rest = request.into;
  while (!rest.empty()) {
    const std::uint64_t count = std::min<std::uint64_t>(rest.size(), piece_bytes - at % piece_bytes);
    parts.push_back({request.entry, at, rest.first(count)});
    rest = rest.subspan(count);
    at += count;
  }
}

}  // namespace

Error CheckpointReader::damaged(const std::string& reason) const {
  return fail("checkpoint", path_, reason, "using an earlier checkpoint", ErrorKind::BadData);
}

Error CheckpointReader::unreadable(int error_number) const {
  return fail("checkpoint", path_, "cannot be read: " + errno_text(error_number), "having the file system checked",
              ErrorKind::InputOutput);
}

namespace {

/// Checks the owner of the opened file and of its name, which may be a link.
Result<void> check_owner(const storage::File& opened, const std::string& path) {
  struct stat file {};
  struct stat name {};
  if (::fstat(opened.descriptor(), &file) != 0 || ::lstat(path.c_str(), &name) != 0) {
    return fail("--resume", path, "cannot be examined: " + errno_text(errno), "having the file system checked",
                ErrorKind::InputOutput);
  }
  for (const struct stat* const status : {&file, &name}) {
    if (!is_own(*status, folder_of(path))) {
      return fail("--resume", "auto",
                  fmt::format("{} belongs to user {}; another user's checkpoint is used only if you name it", path,
                              status->st_uid),
                  fmt::format("--resume={} to resume from it, --resume=never to start from the beginning, or changing "
                              "--run-name or --checkpoint-dir",
                              path),
                  ErrorKind::Mismatch);
    }
  }
  return {};
}

}  // namespace

Result<CheckpointReader> CheckpointReader::open(const std::string& path, Owner owner) {
  CheckpointReader reader;
  reader.path_ = path;
  reader.file_ = storage::File(path, O_RDONLY | O_NONBLOCK);  // so that a pipe of that name does not block
  const auto size = reader.file_ ? reader.file_.regular_size() : std::nullopt;
  if (!size) {
    return fail("checkpoint", path, errno == EINVAL ? "is not a regular file" : errno_text(errno),
                "naming an existing checkpoint", ErrorKind::NoInput);
  }
  RETURN_IF_ERROR(owner == Owner::ThisUser ? check_owner(reader.file_, path) : Result<void>());
  reader.file_bytes_ = *size;
  std::array<std::byte, kCommitHeaderBytes> header{};
  const auto got = reader.file_.read_at(header, 0);
  if (!got) {
    return reader.unreadable(errno);
  }
  RETURN_IF_ERROR(reader.read_manifest(std::span(header).first(*got)));
  if (const std::string problem = layout_problem(reader.manifest_, reader.file_bytes_); !problem.empty()) {
    return reader.damaged("is damaged: " + problem);
  }
  for (std::size_t i = 0; i < reader.manifest_.datasets.size(); ++i) {
    reader.number_of_.emplace(reader.manifest_.datasets[i].name, i);
  }
  return reader;
}

Result<void> CheckpointReader::read_manifest(std::span<const std::byte> header_bytes) {
  if (starts_as_hdf5(header_bytes)) {
    return damaged("has no commit header: another program rewrote the file");
  }
  if (header_bytes.size() == kCommitHeaderBytes && all_zero(header_bytes)) {
    return damaged("was never finished");
  }
  const auto header = decode_commit_header(header_bytes);
  if (!header) {
    return damaged(starts_as_commit_header(header_bytes)
                       ? "is damaged: its commit header is invalid"
                       : fmt::format("is damaged or not in format {}", schema::kFormat));
  }
  if (header->major_version > schema::kMajorVersion) {
    return fail("checkpoint", path_,
                fmt::format("has format version {}, but this program reads versions up to {}.x", header->major_version,
                            schema::kMajorVersion),
                "installing a newer rollcall", ErrorKind::Mismatch);
  }
  if (header->file_bytes != file_bytes_) {
    return damaged(fmt::format("is damaged: it has {} bytes instead of {}", file_bytes_, header->file_bytes));
  }
  const bool inside = header->manifest_bytes <= std::min(file_bytes_, kLargestManifest) &&
                      header->manifest_offset <= file_bytes_ - header->manifest_bytes;
  std::string text(inside ? header->manifest_bytes : 0, '\0');
  const auto got = file_.read_at(std::as_writable_bytes(std::span(text)), header->manifest_offset);
  if (!got) {
    return unreadable(errno);
  }
  if (!inside || *got != text.size() || storage::crc32c(std::as_bytes(std::span(text))) != header->manifest_crc32c) {
    return damaged(fmt::format("is damaged: the checksum of {} is wrong", schema::kManifest));
  }
  auto manifest = manifest_from_json(text);
  if (!manifest) {
    return damaged(fmt::format("is damaged: {} is invalid", schema::kManifest));
  }
  manifest_ = *std::move(manifest);
  own_entry_.name = schema::kManifest;
  own_entry_.offset = header->manifest_offset;
  own_entry_.bytes = header->manifest_bytes;
  structure_crc32c_ = header->structure_crc32c;
  return {};
}

const ManifestEntry* CheckpointReader::find(std::string_view name) const {
  const auto found = number_of_.find(name);
  return found == number_of_.end() ? nullptr : &manifest_.datasets[found->second];
}

Result<void> CheckpointReader::read(std::span<const ReadRequest> requests, VerifyLevel level,
                                    std::size_t threads) const {
  std::vector<ReadRequest> parts;
  for (const ReadRequest& request : requests) {
    cut_at_pieces(request, manifest_.piece_bytes, parts);
  }
  return parallel_for(parts.size(), threads,
                      [&](std::size_t i, std::size_t /*worker*/) { return read_part(parts[i], level); });
}

/// `request` is within one piece.
Result<void> CheckpointReader::read_part(const ReadRequest& request, VerifyLevel level) const {
  const ManifestEntry& entry = *request.entry;
  const std::uint64_t wanted_end = request.first_byte + request.into.size();
  const std::uint64_t piece = request.first_byte / manifest_.piece_bytes;
  const std::uint64_t begin = level == VerifyLevel::Full ? piece * manifest_.piece_bytes : request.first_byte;
  const std::uint64_t end =
      level == VerifyLevel::Full ? begin + std::min(manifest_.piece_bytes, entry.bytes - begin) : wanted_end;
  std::vector<std::byte> scratch;
  std::uint32_t crc = 0;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t count = std::min(kChunkBytes, end - at);
    const std::uint64_t wanted_from = std::clamp(request.first_byte, at, at + count);
    const std::uint64_t wanted = std::clamp(wanted_end, at, at + count) - wanted_from;
    std::span<std::byte> chunk;
    if (wanted == count) {
      chunk = request.into.subspan(at - request.first_byte, count);
    } else {
      scratch.resize(count);
      chunk = scratch;
    }
    const auto got = file_.read_at(chunk, entry.offset + at);
    if (!got) {
      return unreadable(errno);
    }
    if (*got != count) {
      return damaged(fmt::format("is damaged: {} is truncated", entry.name));
    }
    if (level == VerifyLevel::Full) {
      crc = storage::crc32c(chunk, crc);
    }
    if (wanted != count && wanted > 0) {
      std::memcpy(request.into.data() + (wanted_from - request.first_byte), chunk.data() + (wanted_from - at), wanted);
    }
    at += count;
  }
  const std::uint32_t expected = entry.pieces.empty() ? entry.crc32c : entry.pieces[piece];
  if (level == VerifyLevel::Full && crc != expected) {
    return damaged(fmt::format("is damaged: the checksum of {} is wrong", entry.name));
  }
  return {};
}

Result<std::map<std::string, Value>> CheckpointReader::values() const {
  std::map<std::string, Value> values;
  for (const ManifestEntry& entry : manifest_.datasets) {
    if (entry.kind != Kind::Value) {
      continue;
    }
    if (!storage::fits_in_memory(entry.bytes)) {
      return damaged(
          fmt::format("is damaged: {} has {} bytes, more than this process's memory", entry.name, entry.bytes));
    }
    std::vector<std::byte> bytes(entry.bytes);
    const ReadRequest request{&entry, 0, bytes};
    RETURN_IF_ERROR(read(std::span(&request, 1), VerifyLevel::Full, 1));
    if (auto value = decode_value(entry, bytes)) {
      values.emplace(entry.name, std::move(*value));
    }
  }
  return values;
}

Result<void> CheckpointReader::verify_structure() const {
  const auto crc = structure_crc32c(file_, file_bytes_, manifest_, own_entry_);
  if (!crc) {
    return unreadable(errno);
  }
  return *crc == structure_crc32c_ ? Result<void>() : damaged("is damaged: the checksum of HDF5's structures is wrong");
}

Result<void> CheckpointReader::verify(VerifyLevel level, std::size_t threads) const {
  Result<void> sound = verify_structure();
  if (!sound || level == VerifyLevel::Metadata) {
    return sound;
  }
  // Reading one byte of a piece with verification reads the whole piece.
  std::vector<ReadRequest> pieces;
  for (const ManifestEntry& entry : manifest_.datasets) {
    for (std::uint64_t at = 0; at < entry.bytes; at += std::min(manifest_.piece_bytes, entry.bytes - at)) {
      pieces.push_back({&entry, at, {}});
    }
  }
  return parallel_for(pieces.size(), threads, [&](std::size_t i, std::size_t /*worker*/) {
    std::byte unused{};
    return read_part({pieces[i].entry, pieces[i].first_byte, std::span(&unused, 1)}, VerifyLevel::Full);
  });
}

std::size_t default_threads() { return std::clamp(std::thread::hardware_concurrency(), 1U, 4U); }

Result<void> verify_file(const std::string& path, VerifyLevel level) {
  const auto reader = CheckpointReader::open(path);
  return reader ? reader->verify(level, default_threads()) : reader.error();
}

}  // namespace rollcall::checkpoint::format
