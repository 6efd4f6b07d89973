#include "trainer/process_group/ucx/process_identity.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <array>
#include <fstream>

#include "runtime/base/text.h"

namespace rollcall::process_group::ucx {
namespace {

/// Equal for processes that can see each other's PIDs.
std::string pid_space() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> name{};
  const ssize_t length = readlink("/proc/self/ns/pid", name.data(), name.size());
  return boot.empty() || length <= 0 ? "" : boot + " " + std::string(name.data(), static_cast<std::size_t>(length));
}

}  // namespace

std::string process_identity() {
  const std::string space = pid_space();
  return space.empty() ? "" : space + " " + std::to_string(getpid());
}

int watch_process(const std::string& identity) {
  const std::string space = pid_space();
  if (space.empty() || identity.rfind(space + " ", 0) != 0) {
    return -1;
  }
  const std::optional<pid_t> pid = parse_integer<pid_t>(identity.substr(space.size() + 1));
  return pid ? static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)) : -1;
}

}  // namespace rollcall::process_group::ucx
