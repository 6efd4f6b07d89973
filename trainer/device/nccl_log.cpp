#include "trainer/device/nccl_log.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/base/small_file.h"

namespace rollcall::device {
namespace {

namespace fs = std::filesystem;

/// NCCL opens its file once a process and keeps it.
int& file_in_memory() {
  static int descriptor = -1;
  return descriptor;
}

bool is_active_infiniband(const fs::path& port) {
  return first_line_of(port / "link_layer") == "InfiniBand" && first_line_of(port / "state").ends_with("ACTIVE");
}

/// NCCL's own files of settings, a site's and a user's, which an environment overrides (NCCL's manual, "Environment
/// Variables").
bool settings_of_nccl_say_how() {
  const auto value = [](const char* name) {
    const char* const set = ::getenv(name);
    return std::string(set == nullptr ? "" : set);
  };
  for (const std::string& path :
       {std::string("/etc/nccl.conf"), value("HOME") + "/.nccl.conf", value("NCCL_CONF_FILE")}) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) {
      continue;
    }
    std::ifstream stream(path);
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("NCCL_DEBUG")) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void keep_nccl_log() {
  constexpr std::array kVariables{"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};
  if (std::ranges::any_of(kVariables, [](const char* name) { return ::getenv(name) != nullptr; }) ||
      settings_of_nccl_say_how()) {
    return;
  }
  int& file = file_in_memory();
  file = ::memfd_create("nccl-log", MFD_CLOEXEC);
  if (file < 0) {
    return;
  }
  constexpr int kKeep = 0;
  ::setenv("NCCL_DEBUG", "INFO", kKeep);  // the network is not logged as a warning
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT,NET", kKeep);
  ::setenv("NCCL_DEBUG_FILE", ("/proc/self/fd/" + std::to_string(file)).c_str(), kKeep);
}

std::string nccl_log() {
  constexpr off_t kMost = 1 << 20;
  const off_t size = file_in_memory() < 0 ? 0 : ::lseek(file_in_memory(), 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::clamp<off_t>(size, 0, kMost)), '\0');
  const off_t from = size - static_cast<off_t>(text.size());  // its end: failures are logged last
  const ssize_t got = text.empty() ? 0 : ::pread(file_in_memory(), text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

std::string network_of(std::string_view nccl_log) {
  constexpr std::string_view kBefore = "NCCL INFO Using network ";
  const std::size_t found = nccl_log.rfind(kBefore);
  if (found == std::string_view::npos) {
    return "";
  }
  const std::string_view rest = nccl_log.substr(found + kBefore.size());
  return std::string(rest.substr(0, rest.find_first_of(" \r\n")));
}

bool has_warning(std::string_view nccl_log) { return nccl_log.find("NCCL WARN") != std::string_view::npos; }

std::string active_infiniband(const std::string& root) {
  for (const fs::path& adapter : entries_of(root + "/sys/class/infiniband")) {
    if (std::ranges::any_of(entries_of(adapter / "ports"), is_active_infiniband)) {
      return adapter.filename();
    }
  }
  return "";
}

}  // namespace rollcall::device
