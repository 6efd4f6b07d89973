#include "trainer/tools/checkpoint/checkpoint_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/format/writer.h"
#include "trainer/checkpoint/interop/files.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace format = checkpoint::format;

constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;  ///< read at once when verifying

std::uint64_t bytes_of(std::span<const format::ManifestEntry> entries) {
  std::uint64_t bytes = 0;
  for (const format::ManifestEntry& entry : entries) {
    bytes += entry.bytes;
  }
  return bytes;
}

/// Returns the first data sets that fit into `room`, at least one.
std::span<const format::ManifestEntry> next_batch(std::span<const format::ManifestEntry> entries, std::uint64_t room) {
  std::size_t count = 1;
  std::uint64_t bytes = entries.front().bytes;
  while (count < entries.size() && bytes + entries[count].bytes <= room) {
    bytes += entries[count++].bytes;
  }
  return entries.first(count);
}

/// Reads complete data sets through a buffer that may be smaller than one of them.
Result<void> check(const format::CheckpointReader& reader, std::span<const format::ManifestEntry> entries,
                   std::span<std::byte> buffer, std::size_t threads) {
  std::vector<format::ReadRequest> requests;
  std::size_t used = 0;
  for (const format::ManifestEntry& entry : entries) {
    for (std::uint64_t at = 0; at < entry.bytes;) {
      const auto count = std::min<std::uint64_t>(entry.bytes - at, buffer.size() - used);
      requests.push_back({&entry, at, buffer.subspan(used, count)});
      at += count;
      used += count;
      if (used == buffer.size()) {
        RETURN_IF_ERROR(reader.read(requests, format::VerifyLevel::Full, threads));
        requests.clear();
        used = 0;
      }
    }
  }
  return reader.read(requests, format::VerifyLevel::Full, threads);
}

Result<CheckpointFile> open_newest(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto listed, format::list_checkpoints(folder));
  for (const format::ListedCheckpoint& checkpoint : listed) {
    auto file = CheckpointFile::open(checkpoint.path);
    if (file || file.error().kind != ErrorKind::BadData || &checkpoint == &listed.back()) {
      return file;
    }
  }
  return no_checkpoint_in(folder);
}

}  // namespace

Result<CheckpointFile> CheckpointFile::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return open_newest(path);
  }
  ASSIGN_OR_RETURN(auto reader, format::CheckpointReader::open(path));
  CheckpointFile file;
  file.reader_ = std::make_unique<format::CheckpointReader>(std::move(reader));
  ASSIGN_OR_RETURN(auto values, file.reader_->values());
  file.values_ = std::move(values);
  for (const format::ManifestEntry& entry : file.reader_->datasets()) {
    const auto dtype = format::dtype_from_name(entry.type);
    if (entry.kind == format::Kind::Tensor && dtype) {
      file.number_of_.emplace(entry.name, file.tensors_.size());
      file.number_of_.emplace(entry.state_dict_key, file.tensors_.size());
      file.tensors_.push_back(
          {entry.name, entry.state_dict_key, *dtype, entry.shape, entry.bytes, entry.crc32c, &entry});
    }
  }
  file.number_of_.erase("");
  return file;
}

const CheckpointTensor* CheckpointFile::find(std::string_view name) const {
  const auto found = number_of_.find(name);
  return found == number_of_.end() ? nullptr : &tensors_[found->second];
}

Result<std::vector<const CheckpointTensor*>> CheckpointFile::model() const {
  const auto names = value<std::vector<std::string>>(format::schema::kModelKeys);
  if (!names) {
    return fail("checkpoint", path(), "has no list of the model's tensors", "naming another checkpoint",
                ErrorKind::BadData);
  }
  std::map<std::string_view, const CheckpointTensor*> by_key;
  for (const CheckpointTensor& tensor : tensors_) {
    by_key.emplace(tensor.key, &tensor);
  }
  std::vector<const CheckpointTensor*> model;
  for (const std::string& name : *names) {
    const auto found = by_key.find(name);
    if (name.empty() || found == by_key.end()) {
      return fail("checkpoint", path(), "lacks the tensor " + name, "naming another checkpoint", ErrorKind::BadData);
    }
    model.push_back(found->second);
  }
  return model;
}

Result<std::unique_ptr<std::byte[]>> CheckpointFile::read(const CheckpointTensor& tensor) const {
  if (!storage::fits_in_memory(tensor.bytes)) {
    return fail("checkpoint", path(), fmt::format("{} has {} bytes, more than fit in memory", tensor.key, tensor.bytes),
                "giving the process more memory, or naming another checkpoint", ErrorKind::BadData);
  }
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(tensor.bytes);
  const format::ReadRequest request{tensor.entry, 0, {bytes.get(), tensor.bytes}};
  RETURN_IF_ERROR(reader_->read({&request, 1}, format::VerifyLevel::Full, format::default_threads()));
  return bytes;
}

Result<std::vector<std::string>> CheckpointFile::find_damaged(std::size_t threads,
                                                              metrics::WorkProgress& progress) const {
  RETURN_IF_ERROR(reader_->verify(format::VerifyLevel::Metadata, threads));
  const std::span<const format::ManifestEntry> all(reader_->datasets());
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kBatchBytes, file_bytes()));
  std::vector<std::string> found;
  progress.begin("verifying " + std::filesystem::path(path()).filename().string(), all.size());
  std::uint64_t bytes = 0;
  for (std::size_t done = 0; done < all.size();) {
    const auto batch = next_batch(all.subspan(done), buffer.size());
    const auto sound = check(*reader_, batch, buffer, threads);
    // Find the damaged ones of the batch, one at a time.
    for (std::size_t i = 0; i < batch.size() && !sound; ++i) {
      const auto alone = check(*reader_, batch.subspan(i, 1), buffer, threads);
      if (!alone && alone.error().kind != ErrorKind::BadData) {
        return alone.error();
      }
      if (!alone) {
        found.push_back(batch[i].state_dict_key.empty() ? batch[i].name : batch[i].state_dict_key);
      }
    }
    done += batch.size();
    bytes += bytes_of(batch);
    progress.step(done, bytes);
  }
  return found;
}

Error no_checkpoint_in(const std::string& folder) {
  return fail("checkpoint", folder, "holds no checkpoint (step-*.h5)",
              "naming the folder of the checkpoints, such as $SCRATCH/rollcall/NAME/checkpoints", ErrorKind::NoInput);
}

Error unknown_tensor(const CheckpointFile& file, const std::string& name) {
  std::vector<std::string> names;
  for (const CheckpointTensor& tensor : file.tensors()) {
    names.push_back(tensor.name());
  }
  const auto meant = nearest(name, names);
  return fail("tensor", name, "is not in " + file.path(),
              meant ? "naming " + *meant : "rollcall-checkpoint show --tensors to list all");
}

namespace {

namespace format = checkpoint::format;
using checkpoint::interop::StateTensor;

bool is_sound_key(const std::string& key) {
  const auto parts = split(key, '.');
  const auto is_sound = [](const std::string& part) {
    return !part.empty() && std::ranges::none_of(part, [](char c) { return c == '/' || c == '\0'; });
  };
  return !parts.empty() && std::ranges::all_of(parts, is_sound);
}

}  // namespace

std::string key_problem(const std::vector<StateTensor>& tensors) {
  std::set<std::string_view> keys;
  for (const StateTensor& tensor : tensors) {
    if (!is_sound_key(tensor.key) || !keys.insert(tensor.key).second) {
      return "tensor name '" + tensor.key + "' is not possible in a checkpoint";
    }
  }
  for (const StateTensor& tensor : tensors) {
    for (std::size_t dot = tensor.key.find('.'); dot != std::string::npos; dot = tensor.key.find('.', dot + 1)) {
      const std::string_view group(tensor.key.data(), dot);
      if (keys.contains(group)) {
        return "tensor " + std::string(group) + " and tensor " + tensor.key + " are not possible in one checkpoint";
      }
    }
  }
  return "";
}

Result<void> write_model_checkpoint(const std::string& path, bool overwrite, const std::vector<StateTensor>& tensors,
                                    std::map<std::string, format::Value> values) {
  RETURN_IF_ERROR(checkpoint::interop::check_output_name(path, overwrite));
  if (const std::string problem = key_problem(tensors); !problem.empty()) {
    return fail("state dict", path, problem, "renaming it before saving", ErrorKind::BadData);
  }
  format::Content content;
  std::vector<std::string> keys;
  for (const StateTensor& tensor : tensors) {
    content.tensors.push_back(
        {format::schema::model_path(tensor.key), tensor.key, tensor.dtype, tensor.shape, tensor.bytes});
    keys.push_back(tensor.key);
  }
  content.values = std::move(values);
  content.values[format::schema::kModelKeys] = std::move(keys);
  format::WriterOptions options;
  options.writer = "rollcall-checkpoint " ROLLCALL_VERSION;
  return format::write_checkpoint(path, content, options);
}

}  // namespace rollcall::checkpoint_tool
