#include "trainer/distributed/processes/processes.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"

namespace rollcall::process_group {
namespace {

constexpr std::uint64_t kStop = std::uint64_t{1} << 32;  // smaller names are ranks

bool is_readable(int descriptor) {
  pollfd asked{descriptor, POLLIN, 0};
  return poll(&asked, 1, 0) == 1;
}

/// Returns a descriptor that becomes readable once the process `identity` has ended (pidfd_open(2), Linux 5.3), also
/// while it is a zombie. The caller owns it. -1 if local_process() does not find it, it has ended, or the kernel has no
/// pidfds.
int watch_process(const std::string& identity) {
  const std::optional<pid_t> pid = local_process(identity);
  return pid ? static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)) : -1;
}

}  // namespace

std::string process_space() {
  const std::string boot = first_line_of("/proc/sys/kernel/random/boot_id");
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
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)), stop_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  try {
    if (epoll_fd_ < 0 || stop_fd_ < 0) {
      throw std::system_error(errno, std::generic_category(), "no descriptors to watch processes with");
    }
    await_events_of(stop_fd_, kStop, EPOLLIN);
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    close(epoll_fd_);
    close(stop_fd_);
    throw;
  }
}

ProcessWatch::~ProcessWatch() {
  eventfd_write(stop_fd_, 1);
  thread_.join();
  for (const auto& [rank, descriptor] : processes_) {
    close(descriptor);
  }
  close(stop_fd_);
  close(epoll_fd_);
}

void ProcessWatch::await_events_of(int descriptor, std::uint64_t name, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, descriptor, &event);
}

void ProcessWatch::add(std::uint32_t rank, const std::string& identity) {
  const std::lock_guard lock(mutex_);
  if (processes_.contains(rank)) {
    return;
  }
  if (const int descriptor = watch_process(identity); descriptor >= 0) {
    processes_.emplace(rank, descriptor);
    await_events_of(descriptor, rank, EPOLLIN | EPOLLONESHOT);
  }
}

void ProcessWatch::run() {
  while (true) {
    epoll_event event{};
    if (epoll_wait(epoll_fd_, &event, 1, -1) < 1) {
      continue;
    }
    if (event.data.u64 == kStop) {
      return;
    }
    end(static_cast<std::uint32_t>(event.data.u64));
  }
}

void ProcessWatch::end(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  if (is_known(rank)) {
    return;
  }
  ended_.push_back(rank);
  changed_.notify_all();
  for (const auto& [owner, callback] : callbacks_) {
    callback();
  }
}

std::vector<std::uint32_t> ProcessWatch::await_ended(std::size_t& known, std::chrono::milliseconds longest,
                                                     const std::atomic<bool>& gives_up) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest, [&] { return ended_.size() > known || gives_up; });
  std::vector<std::uint32_t> news(ended_.begin() + static_cast<std::ptrdiff_t>(known), ended_.end());
  known = ended_.size();
  return news;
}

void ProcessWatch::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void ProcessWatch::notify(const void* owner, std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  if (callback) {
    callbacks_[owner] = std::move(callback);
  } else {
    callbacks_.erase(owner);
  }
}

bool ProcessWatch::is_known(std::uint32_t rank) const { return std::ranges::find(ended_, rank) != ended_.end(); }

bool ProcessWatch::has_ended(std::uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  const auto process = processes_.find(rank);
  return is_known(rank) || (process != processes_.end() && is_readable(process->second));
}

bool ProcessWatch::is_alive(std::uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  const auto process = processes_.find(rank);
  return process != processes_.end() && !is_known(rank) && !is_readable(process->second);
}

}  // namespace rollcall::process_group
