#include "runtime/base/environment.h"

#include <pwd.h>
#include <unistd.h>

#include <array>

namespace rollcall {

Environment Environment::of_this_process() { return from_entries(environ); }

Environment Environment::from_entries(const char* const* entries) {
  Environment environment;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::string_view entry = *entries;
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos && equals > 0) {
      environment.set(std::string(entry.substr(0, equals)), std::string(entry.substr(equals + 1)));
    }
  }
  return environment;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> Environment::get_non_empty(std::string_view name) const {
  std::optional<std::string> value = get(name);
  return value && !value->empty() ? value : std::nullopt;
}

void Environment::set(std::string name, std::string value) {
  variables_.insert_or_assign(std::move(name), std::move(value));
}

void Environment::unset(std::string_view name) {
  const auto found = variables_.find(name);
  if (found != variables_.end()) {
    variables_.erase(found);
  }
}

Environment with_home_and_user(Environment environment) {
  const bool complete = environment.get_non_empty("HOME") && environment.get_non_empty("USER");
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 1 << 14> text{};  // room for all texts of the entry
  if (complete || ::getpwuid_r(::geteuid(), &entry, text.data(), text.size(), &found) != 0 || found == nullptr) {
    return environment;
  }
  if (!environment.get_non_empty("HOME")) {
    environment.set("HOME", entry.pw_dir);
  }
  if (!environment.get_non_empty("USER")) {
    environment.set("USER", entry.pw_name);
  }
  return environment;
}

}  // namespace rollcall
