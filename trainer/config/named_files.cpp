#include "trainer/config/named_files.h"

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

std::string_view checksum_in(std::string_view value) {
  const std::string_view end = value.substr(value.size() - std::min(value.size(), kDigits));
  const bool is_checksum = end.size() == kDigits && end.starts_with('#') &&
                           end.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
  return is_checksum ? end : std::string_view();
}

Result<std::uint32_t> checksum_of(const std::string& path, const std::string& setting, const std::string& kind) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    return fail(setting, path, "is not a regular file", "naming " + kind, ErrorKind::NoInput);
  }
  const File file(path, O_RDONLY | O_NONBLOCK);
  std::vector<std::byte> piece(std::size_t{1} << 20);
  std::uint32_t sum = 0;
  std::uint64_t offset = 0;
  for (;;) {
    const std::optional<std::size_t> read = file ? file.read_at(piece, offset) : std::nullopt;
    if (!read) {
      return fail(setting, path, errno_text(errno), "naming " + kind + " that every node can read", ErrorKind::NoInput);
    }
    sum = storage::crc32c(std::span(piece).first(*read), sum);
    offset += *read;
    if (*read < piece.size()) {
      return sum;
    }
  }
}

/// Adds the checksum of its file to the setting `name`. A user's file whose own name ends like one is refused.
Result<void> identify(settings::Settings& settings, const std::string& name, const Environment& environment,
                      const std::string& kind) {
  const settings::SettingValue value = settings.value(name);
  const std::string option = "--" + name;
  const std::string_view given = without_checksum(value.text);
  ASSIGN_OR_RETURN(const std::string whole, settings::expand_path(value.text, environment, option));
  ASSIGN_OR_RETURN(const std::string path, settings::expand_path(given, environment, option));
  std::error_code ignored;
  if (whole != path && std::filesystem::exists(whole, ignored)) {
    return fail(option, value.text, "has a name that ends like a checksum", "giving the file another name");
  }
  ASSIGN_OR_RETURN(const std::uint32_t sum, checksum_of(path, option, kind));
  return settings.set(name, fmt::format("{}#{:08x}", given, sum), value.origin);
}

}  // namespace

bool is_script(std::string_view model) {
  return !model.empty() &&
         std::ranges::find(model::kResNets, model, &model::ResNetShape::name) == model::kResNets.end();
}

std::string_view without_checksum(std::string_view value) {
  return value.substr(0, value.size() - checksum_in(value).size());
}

bool is_same_file(std::string_view one, std::string_view other) {
  const bool is_known = !checksum_in(one).empty() && !checksum_in(other).empty();
  return is_known ? checksum_in(one) == checksum_in(other) : without_checksum(one) == without_checksum(other);
}

Result<std::string> script_path(const settings::Settings& settings, const Environment& environment) {
  const std::string& model = settings.text("model");
  return is_script(model) ? settings::expand_path(without_checksum(model), environment, "--model")
                          : Result(std::string());
}

Result<void> identify_script(settings::Settings& settings, const Environment& environment) {
  return is_script(settings.text("model")) ? identify(settings, "model", environment, "a TorchScript file")
                                           : Result<void>();
}

Result<void> identify_files(settings::Settings& settings, const Environment& environment) {
  RETURN_IF_ERROR(identify_script(settings, environment));
  const std::string& weights = settings.text("class-weights");
  return weights == "none" || weights == "balanced"
             ? Result<void>()
             : identify(settings, "class-weights", environment, "a file of weights");
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
  return !is_script(then) || checksum_in(then).empty() || is_same_file(model, then)
             ? Result<void>()
             : fail("--model", std::string(without_checksum(model)),
                    fmt::format("is not the script with which {} was trained: its content differs", file),
                    "giving the script of the training", ErrorKind::Mismatch);
}

}  // namespace rollcall::config
