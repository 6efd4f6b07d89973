#include "trainer/distributed/processes/process_identity.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <array>
#include <fstream>

#include "runtime/base/text.h"

namespace rollcall::process_group {

std::string process_space() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> name{};
  const ssize_t length = readlink("/proc/self/ns/pid", name.data(), name.size());
  return boot.empty() || length <= 0 ? "" : boot + " " + std::string(name.data(), static_cast<std::size_t>(length));
}

std::string process_identity() {
  const std::string space = process_space();
  return space.empty() ? "" : space + " " + std::to_string(getpid());
}

std::optional<pid_t> local_process(const std::string& identity) {
  const std::string space = process_space();
  if (space.empty() || identity.rfind(space + " ", 0) != 0) {
    return std::nullopt;
  }
  return parse_integer<pid_t>(identity.substr(space.size() + 1));
}

int watch_process(const std::string& identity) {
  const std::optional<pid_t> pid = local_process(identity);
  return pid ? static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)) : -1;
}

}  // namespace rollcall::process_group
