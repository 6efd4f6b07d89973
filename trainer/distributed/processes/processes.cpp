#include "trainer/distributed/processes/processes.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "runtime/base/text.h"

namespace rollcall::process_group {
namespace {

constexpr std::uint64_t kWakeEvent = std::uint64_t{1} << 32;  // smaller names are ranks

bool is_readable(int descriptor) {
  pollfd asked{descriptor, POLLIN, 0};
  return poll(&asked, 1, 0) == 1;
}

/// A descriptor that becomes readable once the process `identity` has ended (pidfd_open(2), Linux 5.3), also while its
/// parent has not collected it. Owned by the caller. -1 where local_process() knows none, it has ended already, or the
/// kernel cannot do it.
int watch_process(const std::string& identity) {
  const std::optional<pid_t> pid = local_process(identity);
  return pid ? static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)) : -1;
}

}  // namespace

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

ProcessWatch::ProcessWatch()
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)), wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (epoll_fd_ < 0 || wake_fd_ < 0) {
    const std::system_error error(errno, std::generic_category(), "no descriptors to watch processes with");
    close(epoll_fd_);
    close(wake_fd_);
    throw error;
  }
  await_events_of(wake_fd_, kWakeEvent, EPOLLIN);
}

ProcessWatch::~ProcessWatch() {
  for (const auto& [rank, descriptor] : processes_) {
    close(descriptor);
  }
  close(wake_fd_);
  close(epoll_fd_);
}

void ProcessWatch::await_events_of(int descriptor, std::uint64_t name, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, descriptor, &event);
}

void ProcessWatch::add(std::uint32_t rank, const std::string& identity) {
  if (const int descriptor = watch_process(identity); descriptor >= 0) {
    processes_.emplace(rank, descriptor);
    await_events_of(descriptor, rank, EPOLLIN | EPOLLONESHOT);
  }
}

std::vector<std::uint32_t> ProcessWatch::await_end(std::chrono::milliseconds longest) {
  std::array<epoll_event, 16> events{};
  const int count =
      epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), static_cast<int>(longest.count()));
  std::vector<std::uint32_t> ended;
  for (int i = 0; i < count; ++i) {
    if (const std::uint64_t name = events[static_cast<std::size_t>(i)].data.u64; name != kWakeEvent) {
      ended.push_back(static_cast<std::uint32_t>(name));
    }
  }
  return ended;
}

void ProcessWatch::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

bool ProcessWatch::has_ended(std::uint32_t rank) const {
  const auto process = processes_.find(rank);
  return process != processes_.end() && is_readable(process->second);
}

bool ProcessWatch::lives(std::uint32_t rank) const {
  const auto process = processes_.find(rank);
  return process != processes_.end() && !is_readable(process->second);
}

}  // namespace rollcall::process_group
