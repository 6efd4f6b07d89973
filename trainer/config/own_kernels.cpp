#include "trainer/config/own_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/text.h"

namespace rollcall::config {
namespace {

using device::KernelParts;

/// What `auto` chooses: off, until a result of `scripts/gpu-check` in this repository shows that a GPU gains by them.
constexpr std::optional<KernelParts> kAuto = std::nullopt;

/// The kernels without any part.
constexpr std::string_view kBasic = "basic";

Error unknown_part(const std::string& word) {
  std::vector<std::string> words{std::string(kBasic)};
  for (const auto& [name, part] : device::kKernelParts) {
    words.emplace_back(name);
  }
  return fail("--own-kernels", word, fmt::format("is not one of {}", fmt::join(words, ", ")),
              "--own-kernels=" + nearest(word, words).value_or("on"));
}

}  // namespace

Result<std::optional<KernelParts>> own_kernels(const settings::Settings& settings) {
  const std::string& text = settings.text("own-kernels");
  if (text == "auto") {
    return kAuto;
  }
  if (text == "on" || text == "true") {  // it was a switch
    return std::optional(KernelParts{});
  }
  if (text == "off" || text == "false") {
    return std::optional<KernelParts>();
  }
  KernelParts chosen = device::kNoKernelParts;
  for (const std::string& word : settings.list("own-kernels")) {
    const auto* const part = std::ranges::find(device::kKernelParts, word, [](const auto& row) { return row.first; });
    if (part != device::kKernelParts.end()) {
      chosen.*(part->second) = true;
    } else if (word != kBasic) {
      return unknown_part(word);
    }
  }
  return std::optional(chosen);
}

}  // namespace rollcall::config
