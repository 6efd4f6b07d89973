#include "runtime/install/image_root.h"

#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/install/plan.h"

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

std::string ImageRoot::resolve(const std::string& path, bool follows_last) const {
  if (is_this_machine()) {
    return path;
  }
  std::deque<std::string> names;
  push_front(names, path);
  std::vector<std::string> place;  // below folder_, free of links
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
      continue;
    }
    if (++links > kMostLinks) {
      return "";
    }
    place.pop_back();
    if (target.is_absolute()) {
      place.clear();
    }
    push_front(names, target.string());
  }
  return folder_ + joined(place);
}

std::string ImageRoot::on_this_machine(const std::string& path) const { return resolve(path, true); }

std::string ImageRoot::entry_on_this_machine(const std::string& path) const { return resolve(path, false); }

ReadFile ImageRoot::reader() const {
  return [root = *this](const std::string& path) { return read_file(root.on_this_machine(path)); };
}

}  // namespace rollcall::install
