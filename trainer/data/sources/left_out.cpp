#include "trainer/data/sources/left_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace rollcall::data {
namespace {

constexpr std::size_t kMostKinds = 100;  // maximum number of distinct kinds: endings may be numbers
constexpr std::size_t kMostNamed = 8;

}  // namespace

void LeftOut::add(const std::string& kind, const std::string& example, std::int64_t count) {
  const bool is_known = kinds_.contains(kind) || kinds_.size() < kMostKinds;
  Kind& entry = kinds_[is_known ? kind : "other"];
  entry.count += count;
  if (entry.example.empty() || example < entry.example) {  // independent of the order in which folders are listed
    entry.example = example;
  }
}

void LeftOut::append(const LeftOut& other) {
  for (const auto& [kind, entry] : other.kinds_) {
    add(kind, entry.example, entry.count);
  }
}

std::string LeftOut::text() const {
  std::vector<std::pair<std::string, Kind>> sorted(kinds_.begin(), kinds_.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  std::int64_t all = 0;
  std::string kinds;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto& [kind, entry] = sorted[i];
    all += entry.count;
    if (i < kMostNamed) {
      kinds += fmt::format("{}{} {} (such as {})", i == 0 ? "" : ", ", entry.count, kind, entry.example);
    }
  }
  return fmt::format("{}: {}{}", all, kinds, sorted.size() > kMostNamed ? ", and others" : "");
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

std::string picture_endings() {
  return fmt::format(".{} or .{}", fmt::join(kPictureEndings.begin(), kPictureEndings.end() - 1, ", ."),
                     kPictureEndings.back());
}

bool is_picture_ending(const std::string& ending) {
  const std::string lower = lower_case(ending);
  return std::find(kPictureEndings.begin(), kPictureEndings.end(), lower) != kPictureEndings.end();
}

std::string last_ending(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? "" : lower_case(name.substr(dot + 1));
}

}  // namespace rollcall::data
