#include "trainer/checkpoint/interop/state_dict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string_view>

#include "trainer/checkpoint/interop/files.h"
#include "trainer/checkpoint/interop/zip_archive.h"

namespace rollcall::checkpoint::interop {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateDict = "state dict";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Returns whether it is "model-00001-of-00003.safetensors"; "-of-00001" is a whole model.
bool is_shard(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kDigits = 5;
  const auto is_number = [](std::string_view text) {
    return text.size() == kDigits && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  const std::size_t at = name.find(kOf);
  if (at == std::string_view::npos || at < kDigits + 1 || name[at - kDigits - 1] != '-') {
    return false;
  }
  const std::string_view count = name.substr(at + kOf.size(), kDigits);
  return is_number(name.substr(at - kDigits, kDigits)) && is_number(count) && count != "00001" &&
         name.substr(at + kOf.size() + kDigits).starts_with('.');
}

Error folder_of_files(const std::string& path) {
  if (is_there(fs::path(path) / ".metadata")) {
    return fail(kStateDict, path, "is a folder of torch.distributed.checkpoint, in which each rank has its part",
                fmt::format("python -m torch.distributed.checkpoint.format_utils dcp_to_torch {} FILE.pth", path),
                ErrorKind::NoInput);
  }
  if (is_there(fs::path(path) / "zero_to_fp32.py")) {
    return fail(kStateDict, path, "is a folder of DeepSpeed, in which each rank has its part",
                "running the script zero_to_fp32.py in it, which writes one file", ErrorKind::NoInput);
  }
  return fail(kStateDict, path, "is a folder", "naming a file", ErrorKind::NoInput);
}

bool remove_prefix(StateDict& state, std::string_view prefix) {
  const auto has_it = [&](const StateTensor& tensor) { return tensor.key.starts_with(prefix); };
  const auto with = static_cast<std::size_t>(std::ranges::count_if(state.tensors, has_it));
  if (with <= state.tensors.size() / 2) {
    return false;
  }
  const auto without = std::stable_partition(state.tensors.begin(), state.tensors.end(), has_it);
  for (auto tensor = without; tensor != state.tensors.end(); ++tensor) {
    tensor->key.insert(0, state.prefix);
    state.others.push_back(std::move(*tensor));
  }
  state.tensors.erase(without, state.tensors.end());
  for (StateTensor& tensor : state.tensors) {
    tensor.key.erase(0, prefix.size());
  }
  state.prefix += prefix;
  return true;
}

/// Returns whether HDF5's signature is at an offset of its specification (section II.A): 0, or 512, 1024, 2048 ...
/// after a user block.
bool is_hdf5(const InputFile& file) {
  constexpr std::uint64_t kSignature = 0x0a1a0a0d46444889;  // "\x89HDF\r\n\x1a\n"
  constexpr std::uint64_t kFarthest = 1 << 20;
  std::array<std::byte, 8> found{};
  for (std::uint64_t at = 0; at <= kFarthest; at = at == 0 ? 512 : 2 * at) {
    if (!file.read(found, at)) {
      return false;
    }
    if (number_at<std::uint64_t>(found, 0) == kSignature) {
      return true;
    }
  }
  return false;
}

enum class Signature { None, Safetensors, Zip, Pickle };

constexpr std::size_t kSignatureBytes = 9;

Result<Signature> signature_of(const InputFile& file) {
  std::array<std::byte, kSignatureBytes> first{};
  RETURN_IF_ERROR(file.read(first, 0));
  // First, because its leading eight bytes of length may look like any of the others.
  if (first[8] == std::byte{'{'}) {
    return Signature::Safetensors;
  }
  if (number_at<std::uint32_t>(first, 0) == kZipSignature) {
    return Signature::Zip;
  }
  return first[0] == std::byte{0x80} ? Signature::Pickle : Signature::None;
}

Result<StateDict> read_by_signature(InputFile file, const std::string& key) {
  if (file.size() < kSignatureBytes) {
    return file.unusable("is too short for a state dict");
  }
  if (!storage::fits_in_memory(file.size())) {
    return file.unusable("is larger than the memory of this process", "raising its memory limit");
  }
  ASSIGN_OR_RETURN(const auto signature, signature_of(file));
  if (signature == Signature::Safetensors) {
    return read_safetensors(file);
  }
  if (signature == Signature::Zip) {
    return read_torch_file(std::move(file), key);
  }
  if (is_hdf5(file)) {
    return file.unusable("is an HDF5 file; if rollcall wrote it, it needs no import", "rollcall-checkpoint show");
  }
  if (signature == Signature::Pickle) {
    return file.unusable("is a pickle without a zip archive, as torch.save wrote it before PyTorch 1.6",
                         "running torch.save(torch.load(FILE, weights_only=True), NEW_FILE) in Python");
  }
  return file.unusable("is neither a safetensors file nor a file of torch.save",
                       "running torch.save(model.state_dict(), FILE) in Python");
}

}  // namespace

std::optional<Error> several_files(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return folder_of_files(path);
  }
  const std::string name = fs::path(path).filename();
  const bool shard = is_shard(name);
  if (!is_there(path) || !(shard || name.ends_with(".index.json"))) {
    return std::nullopt;
  }
  return fail(kStateDict, path,
              shard ? "is one of the several files of a model" : "is the index of the several files of a model",
              "merging the dicts of all files and saving them with torch.save in Python", ErrorKind::BadData);
}

std::optional<std::uint64_t> byte_count(format::DType dtype, std::span<const std::int64_t> shape) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = format::dtype_size(dtype);
  for (const std::int64_t dimension : shape) {
    const auto size = static_cast<std::uint64_t>(dimension);
    if (dimension < 0 || (size != 0 && bytes > kMost / size)) {
      return std::nullopt;
    }
    bytes *= size;
  }
  return bytes;
}

std::string taken_text(const StateDict& state) {
  return state.other_keys.empty()
             ? ""
             : fmt::format("{} was chosen; the file also holds {} (rollcall-checkpoint import --key={})", state.key,
                           fmt::join(state.other_keys, ", "), state.other_keys.front());
}

bool is_state_dict(const std::string& path) {
  const auto file = InputFile::open(path);
  const auto signature = file && file->size() >= kSignatureBytes ? signature_of(*file) : Signature::None;
  return signature && *signature != Signature::None;
}

void remove_wrapper_prefixes(StateDict& state) {
  constexpr int kMostWrappers = 8;  // each costs a copy of all names
  for (int i = 0; i < kMostWrappers; ++i) {
    if (!remove_prefix(state, "module.") && !remove_prefix(state, "_orig_mod.") && !remove_prefix(state, "model.")) {
      return;
    }
  }
}

std::vector<StateTensor> with_whole_names(const StateDict& state) {
  std::vector<StateTensor> whole = state.tensors;
  for (StateTensor& tensor : whole) {
    tensor.key.insert(0, state.prefix);
  }
  whole.insert(whole.end(), state.others.begin(), state.others.end());
  return whole;
}

Result<StateDict> read_state_dict(const std::string& path, const std::string& key) {
  if (auto error = several_files(path)) {
    return *std::move(error);
  }
  ASSIGN_OR_RETURN(auto file, InputFile::open(path));
  ASSIGN_OR_RETURN(auto state, read_by_signature(std::move(file), key));
  if (!key.empty() && state.key != key) {  // of several models in one dict
    std::erase_if(state.tensors, [&](const StateTensor& tensor) { return !tensor.key.starts_with(key + "."); });
    if (!remove_prefix(state, key + ".")) {
      return fail("state dict", path, fmt::format("has no keys that begin with {}.", key), "leaving --key out",
                  ErrorKind::BadData);
    }
  }
  remove_wrapper_prefixes(state);
  return state;
}

}  // namespace rollcall::checkpoint::interop
