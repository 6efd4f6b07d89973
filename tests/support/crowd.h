#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/sealing.h"

namespace rollcall {

/// Strangers: connections that another process has opened to a listener of this host, a third each of which say
/// nothing, say an opening and go on with garbage, and say garbage. They stay open as long as this object lives.
class Crowd {
 public:
  /// Returns at once; somebody has to accept them.
  Crowd(std::uint16_t port, std::size_t count)
      : Crowd(
            [port] {
              const auto soon = rendezvous::Clock::now() + std::chrono::seconds(30);
              return rendezvous::connect_once({"127.0.0.1", port}, soon).descriptor;
            },
            count) {}
  /// `connect` returns the descriptor of a new connection. The other process calls it.
  Crowd(const std::function<int()>& connect, std::size_t count) : count_(count) {
    if (pipe(all_there_.data()) == 0 && (process_ = fork()) == 0) {
      be_the_crowd(connect, count);
    }
    close(std::exchange(all_there_[1], -1));  // if the other process ends, reading ends
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(all_there_[0]);
  }

  /// Waits until all have tried to connect. Returns whether they could: a few may have been disconnected before they
  /// knew that they were connected.
  [[nodiscard]] bool await() const {
    constexpr int kLongest = 60'000;  // milliseconds
    pollfd all_there{all_there_[0], POLLIN, 0};
    std::size_t connected = 0;
    return poll(&all_there, 1, kLongest) == 1 &&
           read(all_there_[0], &connected, sizeof connected) == sizeof connected && connected >= count_ - count_ / 20;
  }
  /// Calls `turn`, which lets somebody accept them, until then.
  [[nodiscard]] bool await(const std::function<void()>& turn) const {
    pollfd all_there{all_there_[0], POLLIN, 0};
    while (poll(&all_there, 1, 0) <= 0) {
      turn();
    }
    return await();
  }

 private:
  [[noreturn]] void be_the_crowd(const std::function<int()>& connect, std::size_t count) const {
    const rlimit many{count + 100, count + 100};
    setrlimit(RLIMIT_NOFILE, &many);
    const std::string opening = std::string(rendezvous::Sealing::kProtocol) + std::string(4096, 'x');
    std::size_t connected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const int descriptor = connect();
      connected += descriptor >= 0 ? 1U : 0U;
      const std::string said = i % 3 == 0 ? "" : i % 3 == 1 ? opening : std::string(4096, '\1');
      (void)send(descriptor, said.data(), said.size(), MSG_NOSIGNAL);
    }
    (void)!write(all_there_[1], &connected, sizeof connected);
    while (true) {
      pause();
    }
  }

  std::size_t count_;
  std::array<int, 2> all_there_{-1, -1};
  pid_t process_ = -1;
};

/// Of this process.
inline std::size_t resident_kilobytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmRSS:") {
  }
  std::size_t kilobytes = 0;
  status >> kilobytes;
  return kilobytes;
}

/// Of this process. A socket that is kept costs the kernel's memory, which is not resident.
inline std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

}  // namespace rollcall
