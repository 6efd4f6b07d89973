#include "trainer/checkpoint/format/writer.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/owned_file.h"
#include "trainer/checkpoint/format/commit_header.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/checkpoint/format/hdf5_structures.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {
namespace {

ManifestEntry entry_of(const TensorView& tensor) {
  ManifestEntry entry;
  entry.name = tensor.path;
  entry.kind = Kind::Tensor;
  entry.type = dtype_name(tensor.dtype);
  entry.element_bytes = dtype_size(tensor.dtype);
  entry.shape = tensor.shape;
  entry.state_dict_key = tensor.state_dict_key;
  entry.bytes = element_count(tensor.shape).value_or(0) * entry.element_bytes;
  return entry;
}

/// Returns all data sets of `content`: its tensors, then `values`.
std::vector<ManifestEntry> datasets_of(const Content& content, const std::vector<EncodedValue>& values) {
  std::vector<ManifestEntry> entries;
  entries.reserve(content.tensors.size() + values.size());
  for (const TensorView& tensor : content.tensors) {
    entries.push_back(entry_of(tensor));
  }
  for (const EncodedValue& value : values) {
    entries.push_back(value.entry);
  }
  return entries;
}

/// The plan that rank 0 sends to the other ranks: the file and the offsets of its data sets. No checksums yet.
struct WritePlan {
  std::string temporary;
  std::vector<ManifestEntry> datasets;
};

Error not_placed(const WritePlan& plan, const std::string& reason) {
  return fail("checkpoint", plan.temporary, reason, "starting all ranks with the same settings", ErrorKind::Mismatch);
}

/// Replaces `plan` by rank 0's. Collective. Errors: those of RankGroup; Internal: the data is invalid.
Result<void> share(WritePlan& plan, RankGroup& group) {
  if (group.size() == 1) {
    return {};
  }
  std::vector<std::byte> bytes;
  if (group.rank() == 0) {
    nlohmann::json rows = nlohmann::json::array();
    for (const ManifestEntry& entry : plan.datasets) {
      rows.push_back({entry.name, entry.offset, entry.bytes});
    }
    const auto packed = nlohmann::json::to_cbor({{"temporary", plan.temporary}, {"datasets", std::move(rows)}});
    const auto view = std::as_bytes(std::span(packed));
    bytes.assign(view.begin(), view.end());
  }
  if (Result<void> received = group.broadcast(bytes); !received || group.rank() == 0) {
    return received;
  }
  const auto* const packed = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto message = nlohmann::json::from_cbor(packed, packed + bytes.size(), true, /*allow_exceptions=*/false);
  if (!message.is_object() || !message.contains("temporary") || !message.contains("datasets")) {
    return fail("checkpoint", "", "rank 0 sent an invalid plan", "reporting this", ErrorKind::Internal);
  }
  plan.temporary = message["temporary"].get<std::string>();
  for (const auto& row : message["datasets"]) {
    ManifestEntry& entry = plan.datasets.emplace_back();
    row.at(0).get_to(entry.name);
    row.at(1).get_to(entry.offset);
    row.at(2).get_to(entry.bytes);
  }
  return {};
}

/// Returns this rank's bytes with their offsets; `values` only on rank 0. Errors (Mismatch): a tensor that `plan` does
/// not have, or more bytes than it has.
Result<std::vector<PlacedSlice>> place(const Content& content, const std::vector<EncodedValue>& values,
                                       const WritePlan& plan) {
  std::map<std::string_view, std::size_t> number_of;
  for (std::size_t i = 0; i < plan.datasets.size(); ++i) {
    number_of.emplace(plan.datasets[i].name, i);
  }
  std::vector<PlacedSlice> slices;
  const auto add = [&](const std::string& name, std::uint64_t first_byte, std::span<const std::byte> bytes) {
    const auto found = number_of.find(name);
    if (found == number_of.end()) {
      return false;
    }
    const ManifestEntry& entry = plan.datasets[found->second];
    slices.push_back(
        {entry.offset + first_byte, found->second, first_byte, bytes, first_byte + bytes.size() == entry.bytes});
    return first_byte <= entry.bytes && bytes.size() <= entry.bytes - first_byte;
  };
  for (const TensorView& tensor : content.tensors) {
    if (!tensor.bytes.empty() && !add(tensor.path, tensor.first_byte, tensor.bytes)) {
      return not_placed(plan, fmt::format("rank 0 does not have {}, or has it with another size", tensor.path));
    }
  }
  for (const EncodedValue& value : values) {
    if (!add(value.entry.name, 0, value.bytes)) {
      return not_placed(plan, fmt::format("{} occurs twice", value.entry.name));
    }
  }
  return slices;
}

/// Returns the time as ISO 8601 in UTC: "2025-01-31T23:59:59Z".
std::string now_text() { return fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))); }

/// Allocates the space on the device before anything is written, so that a full device is noticed at once and the file
/// has few extents. On file systems that do not support this, writing finds out.
Result<void> allocate(const std::string& path, const std::vector<ManifestEntry>& datasets) {
  std::uint64_t end = 0;
  for (const ManifestEntry& entry : datasets) {
    end = std::max(end, entry.offset + entry.bytes);
  }
  const storage::File file(path, O_WRONLY | O_NOFOLLOW);
  const bool taken = file && (end == 0 || ::fallocate(file.descriptor(), 0, 0, static_cast<off_t>(end)) == 0);
  if (!taken && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
    return system_failure(path, "its space cannot be allocated", errno);
  }
  return {};
}

std::vector<std::string> names_of(const std::vector<ManifestEntry>& datasets) {
  std::vector<std::string> names;
  names.reserve(datasets.size());
  for (const ManifestEntry& entry : datasets) {
    names.push_back(entry.name);
  }
  return names;
}

/// The write of one checkpoint on one rank. Every rank takes every step; after each step they agree whether to
/// continue.
class Write {
 public:
  Write(const std::string& path, const Content& content, const WriterOptions& options, RankGroup& group)
      : path_(path), content_(content), options_(options), group_(group), leads_(group.rank() == 0) {}
  ~Write() {
    if (leads_ && !plan_.temporary.empty() && !renamed_) {
      ::unlink(plan_.temporary.c_str());
    }
  }
  Write(const Write&) = delete;
  Write& operator=(const Write&) = delete;

  Result<void> run() {
    for (const auto step : {&Write::create, &Write::write_data, &Write::gather_checksums, &Write::sync_and_verify,
                            &Write::finish_after_all, &Write::write_header, &Write::rename}) {
      RETURN_IF_ERROR(agree(group_, (this->*step)()));
    }
    return {};
  }

 private:
  Result<void> create() {
    if (!leads_) {
      return {};
    }
    plan_.temporary = temporary_name(path_);
    ::unlink(plan_.temporary.c_str());  // left by a dead process with our PID
    for (const auto& [name, value] : content_.values) {
      values_.push_back(encode_value(name, value));
    }
    manifest_.info = {fmt::format("{}.{}", schema::kMajorVersion, schema::kMinorVersion), options_.writer,
                      options_.torch_version, now_text()};
    manifest_.piece_bytes = kPieceBytes;
    manifest_.datasets = datasets_of(content_, values_);
    ASSIGN_OR_RETURN(auto created, Hdf5Structures::create(plan_.temporary, manifest_.info, manifest_.datasets));
    structures_ = std::move(created);
    plan_.datasets = manifest_.datasets;
    Result<void> allocated = allocate(plan_.temporary, plan_.datasets);
    if (allocated) {
      passed(WritePoint::StructuresCreated);
    }
    return allocated;
  }

  Result<void> write_data() {
    RETURN_IF_ERROR(share(plan_, group_));
    ASSIGN_OR_RETURN(auto slices, place(content_, values_, plan_));
    ASSIGN_OR_RETURN(auto file,
                     BlockFile::open(plan_.temporary, options_.read_back, options_.threads, group_.size() > 1));
    blocks_ = std::move(file);
    return blocks_->write(cut_into_blocks(std::move(slices)), [this] { passed(WritePoint::BlockWritten); });
  }

  Result<void> gather_checksums() {
    const auto gathered = group_.gather(to_bytes(blocks_->fragments()));
    if (!gathered || !leads_) {
      return gathered ? Result<void>() : gathered.error();
    }
    std::vector<Fragment> fragments;
    for (const auto& bytes : *gathered) {
      const auto of_rank = fragments_from_bytes(bytes).value_or(std::vector<Fragment>());
      fragments.insert(fragments.end(), of_rank.begin(), of_rank.end());
    }
    if (const std::string problem = set_checksums(manifest_.datasets, std::move(fragments)); !problem.empty()) {
      return fail("checkpoint", path_, problem, "reporting this", ErrorKind::Internal);
    }
    return {};
  }

  Result<void> sync_and_verify() {
    const auto verify_data = [this] { return blocks_->sync_and_verify(names_of(plan_.datasets)); };
    Result<void> verified;
    if (!leads_ || blocks_->past_caches()) {
      verified = verify_data();
    } else {  // finish HDF5's part, which needs a core, while the device is busy with the data
      auto data = std::async(std::launch::async, verify_data);
      const Result<void> finished = finish_structures();
      verified = data.get();
      verified = verified ? finished : verified;
    }
    if (verified) {
      passed(WritePoint::DataVerified);
    }
    return verified;
  }

  /// Writes HDF5's structures, whose pages also hold data of other hosts, through this host's page cache: only after
  /// all data is on the server, whose state is read when a file is opened (nfs(5), close-to-open).
  Result<void> finish_after_all() {
    if (!leads_ || !blocks_->past_caches()) {
      return {};
    }
    const storage::File looked_at(plan_.temporary, O_RDONLY);
    return finish_structures();
  }

  Result<void> finish_structures() {
    ASSIGN_OR_RETURN(auto own, structures_->finish(manifest_));
    own_entry_ = std::move(own);
    return structures_->check(manifest_.datasets);
  }

  /// Writes the commit header after everything else is on the device, because it certifies that.
  Result<void> write_header() {
    if (!leads_) {
      return {};
    }
    RETURN_IF_ERROR(put_commit_header(own_entry_));
    passed(WritePoint::HeaderWritten);
    // If each host has its own pages, rank 0 also verifies what other hosts wrote.
    const VerifyLevel level = blocks_->past_caches() ? VerifyLevel::Full : VerifyLevel::Metadata;
    if (auto verified = verify_file(plan_.temporary, level); !verified) {
      return wrong_content(plan_.temporary, verified.error().reason);
    }
    passed(WritePoint::Verified);
    return {};
  }

  Result<void> put_commit_header(const ManifestEntry& own) {
    const storage::File file(plan_.temporary, O_RDWR | O_NOFOLLOW);
    const auto bytes = file ? file.regular_size() : std::nullopt;
    const auto structure = bytes ? structure_crc32c(file, *bytes, manifest_, own) : std::nullopt;
    if (!structure) {
      return system_failure(plan_.temporary, "cannot be read back", errno);
    }
    const CommitHeader header{schema::kMajorVersion, *bytes, own.offset, own.bytes, own.crc32c, *structure};
    const auto cached = options_.read_back == ReadBack::Memory ? storage::Cached::Keep : storage::Cached::Drop;
    if (!file.write_at(encode_commit_header(header), 0) || !file.sync(cached)) {
      return system_failure(plan_.temporary, "cannot be written", errno);
    }
    return {};
  }

  Result<void> rename() {
    blocks_.reset();
    if (!leads_) {
      return {};
    }
    RETURN_IF_ERROR(options_.before_rename ? options_.before_rename() : Result<void>());
    if (std::rename(plan_.temporary.c_str(), path_.c_str()) != 0) {
      return rename_failure(path_, errno);
    }
    renamed_ = true;
    if (!storage::sync_folder_of(path_)) {
      return system_failure(path_, "its folder cannot be written to the device", errno);
    }
    passed(WritePoint::Renamed);
    return {};
  }

  void passed(WritePoint point) const {
    if (options_.after) {
      options_.after(point);
    }
  }

  const std::string& path_;
  const Content& content_;
  const WriterOptions& options_;
  RankGroup& group_;
  bool leads_;
  WritePlan plan_;
  std::vector<EncodedValue> values_;  ///< of rank 0
  Manifest manifest_;                 ///< of rank 0
  ManifestEntry own_entry_;           ///< of rank 0: entry of /manifest
  std::optional<Hdf5Structures> structures_;
  std::optional<BlockFile> blocks_;
  bool renamed_ = false;
};

}  // namespace

Result<void> write_checkpoint(const std::string& path, const Content& content, const WriterOptions& options,
                              RankGroup& group) {
  return Write(path, content, options, group).run();
}

Result<void> write_checkpoint(const std::string& path, const Content& content, const WriterOptions& options) {
  SingleRank alone;
  return write_checkpoint(path, content, options, alone);
}

}  // namespace rollcall::checkpoint::format
