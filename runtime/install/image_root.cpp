#include "runtime/install/image_root.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"

namespace rollcall::install {
namespace {

constexpr int kMostLinks = 40;  // as the kernel's own limit

void push_front(std::deque<std::string>& names, const std::string& path) {
  const std::vector<std::string> parts = split(path, '/');
  names.insert(names.begin(), parts.begin(), parts.end());
}

std::string joined(const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) {
    path += "/" + part;
  }
  return path;
}

}  // namespace

ImageRoot::Way ImageRoot::walk(const std::string& path, bool follows_last) const {
  Way way{"", {folder_ + "/"}};
  std::deque<std::string> names;
  push_front(names, path);
  std::vector<std::string> place;  // relative to folder_, with links resolved
  int links = 0;
  while (!names.empty()) {
    const std::string name = std::move(names.front());
    names.pop_front();
    if (name.empty() || name == ".") {
      continue;
    }
    if (name == "..") {
      if (!place.empty()) {
        place.pop_back();
      }
      continue;
    }
    place.push_back(name);
    std::error_code none;
    const std::filesystem::path target = std::filesystem::read_symlink(folder_ + joined(place), none);
    if (none || (names.empty() && !follows_last)) {
      way.places.push_back(folder_ + joined(place));
      continue;
    }
    if (++links > kMostLinks) {
      return way;
    }
    place.pop_back();
    if (target.is_absolute()) {
      place.clear();
    }
    push_front(names, target.string());
  }
  way.end = folder_ + joined(place);
  return way;
}

std::string ImageRoot::on_this_machine(const std::string& path) const {
  return is_this_machine() ? path : walk(path, true).end;
}

std::string ImageRoot::entry_on_this_machine(const std::string& path) const {
  return is_this_machine() ? path : walk(path, false).end;
}

std::string ImageRoot::target_on_this_machine(const std::string& path) const { return walk(path, true).end; }

std::vector<std::string> ImageRoot::paths_on_the_way(const std::string& path) const {
  std::vector<std::string> once;
  for (std::string& place : walk(path, true).places) {
    if (std::ranges::find(once, place) == once.end()) {
      once.push_back(std::move(place));
    }
  }
  return once;
}

ListNames ImageRoot::lister() const {
  return [root = *this](const std::string& folder) { return names_in(root.on_this_machine(folder)); };
}

std::optional<std::string> PlanReader::operator()(const std::string& path) const {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  const std::string place = root_.on_this_machine(path);
  std::string text;
  const FileReading reading =
      place.empty() ? FileReading{ELOOP, errno_text(ELOOP)} : read_small_file(place, kLongest, text);
  if (reading.reason.empty()) {
    return text;
  }
  if (reading.error_number != ENOENT && *fault_) {
    *fault_ = fail(root_.shown(path), "", "cannot be read: " + reading.reason + "; nothing was changed",
                   "repairing it, or moving it away", ErrorKind::NoInput);
  }
  return std::nullopt;
}

}  // namespace rollcall::install
