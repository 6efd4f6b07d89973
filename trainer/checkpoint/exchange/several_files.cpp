#include "trainer/checkpoint/exchange/several_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace rollcall::checkpoint::exchange {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateDict = "state dict";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// "model-00001-of-00003.safetensors"; not "-of-00001", which is all.
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
    return fail(kStateDict, path, "is a folder of torch.distributed.checkpoint, to which each rank wrote its part",
                fmt::format("python -m torch.distributed.checkpoint.format_utils dcp_to_torch {} FILE.pth", path),
                ErrorKind::NoInput);
  }
  if (is_there(fs::path(path) / "zero_to_fp32.py")) {
    return fail(kStateDict, path, "is a folder of DeepSpeed, to which each rank wrote its part",
                "the script zero_to_fp32.py in it, which makes one file", ErrorKind::NoInput);
  }
  return fail(kStateDict, path, "is a folder", "naming a file", ErrorKind::NoInput);
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
              shard ? "is one of several files of a model" : "is the table of the several files of a model",
              "torch.save of the dicts of all of them in one, in Python", ErrorKind::BadData);
}

}  // namespace rollcall::checkpoint::exchange
