#include "trainer/config/script_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/settings/values.h"
#include "trainer/model/resnet_shapes.h"
#include "trainer/storage/crc.h"

namespace rollcall::config {
namespace {

constexpr std::size_t kDigits = 9;  ///< of "#1a2b3c4d"

std::string_view checksum_in(std::string_view model) {
  const std::string_view end = model.substr(model.size() - std::min(model.size(), kDigits));
  return end.starts_with('#') && is_script(model) ? end : std::string_view();
}

Result<std::uint32_t> checksum_of(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    return fail("--model", path, "is not a regular file", "naming a TorchScript file", ErrorKind::NoInput);
  }
  const File file(path, O_RDONLY | O_NONBLOCK);
  std::vector<std::byte> piece(std::size_t{1} << 20);
  std::uint32_t sum = 0;
  std::uint64_t offset = 0;
  for (;;) {
    const std::optional<std::size_t> read = file ? file.read_at(piece, offset) : std::nullopt;
    if (!read) {
      return fail("--model", path, errno_text(errno), "naming a TorchScript file that every node can read",
                  ErrorKind::NoInput);
    }
    sum = storage::crc32c(std::span(piece).first(*read), sum);
    offset += *read;
    if (*read < piece.size()) {
      return sum;
    }
  }
}

}  // namespace

bool is_script(std::string_view model) {
  return !model.empty() &&
         std::ranges::find(model::kResNets, model, &model::ResNetShape::name) == model::kResNets.end();
}

std::string_view without_checksum(std::string_view model) {
  return model.substr(0, model.size() - checksum_in(model).size());
}

bool is_same_script(std::string_view one, std::string_view other) {
  return !checksum_in(one).empty() && checksum_in(one) == checksum_in(other);
}

Result<std::string> script_path(const settings::Settings& settings, const Environment& environment) {
  const std::string& model = settings.text("model");
  return is_script(model) ? settings::expand_path(without_checksum(model), environment, "--model")
                          : Result(std::string());
}

Result<void> identify_script(settings::Settings& settings, const Environment& environment) {
  ASSIGN_OR_RETURN(const std::string path, script_path(settings, environment));
  if (path.empty()) {
    return {};
  }
  ASSIGN_OR_RETURN(const std::uint32_t sum, checksum_of(path));
  const settings::SettingValue model = settings.value("model");
  return settings.set("model", fmt::format("{}#{:08x}", without_checksum(model.text), sum), model.origin);
}

Result<void> confirm_script(const settings::Settings& settings, const std::string& then, const std::string& file) {
  const std::string& model = settings.text("model");
  if (!is_script(model)) {
    return fail("--model", model,
                fmt::format("is not the model in {}, which is the script {}", file, without_checksum(then)),
                fmt::format("--model={}, if you trust it: its code runs", without_checksum(then)), ErrorKind::Mismatch);
  }
  return {};
}

Result<void> confirm_same_script(const settings::Settings& settings, const std::string& then, const std::string& file) {
  const std::string& model = settings.text("model");
  return !is_script(then) || checksum_in(then).empty() || is_same_script(model, then)
             ? Result<void>()
             : fail("--model", std::string(without_checksum(model)),
                    fmt::format("is not the script with which {} was trained: its content differs", file),
                    "giving the script of the training", ErrorKind::Mismatch);
}

}  // namespace rollcall::config
