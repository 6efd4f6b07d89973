#include "runtime/elastic/worker_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::elastic {
namespace {

constexpr std::string_view kLivesOn = "lives on";
constexpr std::string_view kHeld = "held";
constexpr std::string_view kWaitsInVain = "waits in vain: ";
constexpr std::string_view kHold = "hold";
constexpr std::string_view kHoldAsLost = "hold, ranks are lost";
constexpr std::string_view kBegin = "begin";
constexpr char kSeparator = '\0';  // never part of a variable
constexpr std::size_t kLongest = std::size_t{64} * 1024;
constexpr std::chrono::milliseconds kGlance{50};

bool send_message(int descriptor, std::string_view message) {
  return send(descriptor, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(message.size());
}

struct Message {
  std::string text;  ///< empty: the peer has closed its end
  pid_t sender = 0;  ///< from the kernel, in this process's namespace; 0: not requested (SO_PASSCRED)
};

/// Returns a message that has arrived, or nothing.
std::optional<Message> receive(int descriptor) {
  std::array<char, kLongest> text;  // NOLINT(cppcoreguidelines-pro-type-member-init): recvmsg fills it
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec place{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &place;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t length = recvmsg(descriptor, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
    return std::nullopt;
  }
  Message message{std::string(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0)};
  const cmsghdr* const first = length > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (first != nullptr && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_CREDENTIALS) {
    ucred credentials{};
    std::memcpy(&credentials, CMSG_DATA(first), sizeof credentials);
    message.sender = credentials.pid;
  }
  return message;
}

Variables variables_of(const std::string& message) {
  Variables variables;
  for (const std::string& line : split(message, kSeparator)) {
    if (const std::size_t equals = line.find('='); equals != std::string::npos) {
      variables.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return variables;
}

}  // namespace

std::optional<WorkerLink::Made> WorkerLink::make(EventLoop& loop) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return std::nullopt;
  }
  return Made{std::unique_ptr<WorkerLink>(new WorkerLink(loop, ends[0])), ends[1]};
}

WorkerLink::WorkerLink(EventLoop& loop, int descriptor) : loop_(loop), descriptor_(descriptor) {
  const int on = 1;
  setsockopt(descriptor_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  loop_.watch(descriptor_, [this] { listen(); });
}

WorkerLink::~WorkerLink() { close_end(); }

void WorkerLink::close_end() {
  if (descriptor_ >= 0) {
    loop_.forget(descriptor_);
    close(descriptor_);
    descriptor_ = -1;
    state_ = State::Silent;
  }
}

void WorkerLink::listen() {
  constexpr int kMostAtOnce = 16;  // the loop calls again
  for (int i = 0; i < kMostAtOnce && descriptor_ >= 0; ++i) {
    const std::optional<Message> message = receive(descriptor_);
    if (!message) {
      return;
    }
    if (message->text.empty()) {
      close_end();
    } else if (message->sender != worker_) {
      continue;
    } else if (message->text == kLivesOn && state_ == State::Silent) {
      state_ = State::Survives;
    } else if (message->text.starts_with(kWaitsInVain) && state_ == State::Survives) {
      stall_ = message->text.substr(kWaitsInVain.size());
    } else if (message->text == kHeld && state_ == State::HoldSent) {
      state_ = State::Held;
    }
  }
}

/// Sends a message. The end of a worker that does not read is closed: such a worker does not survive.
void WorkerLink::send(std::string_view message) {
  if (descriptor_ >= 0 && !send_message(descriptor_, message)) {
    close_end();
  }
}

void WorkerLink::hold(bool lost) {
  if (state_ == State::Held) {
    return;  // it already waits for a generation, and would not answer again
  }
  state_ = State::HoldSent;
  stall_.reset();
  send(lost ? kHoldAsLost : kHold);
}

void WorkerLink::begin(const Variables& variables) {
  std::string message(kBegin);
  for (const auto& [name, value] : variables) {
    message.append(1, kSeparator).append(name).append(1, '=').append(value);
  }
  state_ = State::Silent;
  send(message);
}

std::shared_ptr<AgentLink> AgentLink::of(const Environment& environment) {
  const auto descriptor = parse_integer<int>(environment.get(env::kAgentLink).value_or(""));
  int type = 0;
  socklen_t size = sizeof type;
  ucred agent{};
  socklen_t agent_size = sizeof agent;
  // A process between the agent and this one may have closed the descriptor and opened another file.
  if (!descriptor || getsockopt(*descriptor, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET ||
      getsockopt(*descriptor, SOL_SOCKET, SO_PEERCRED, &agent, &agent_size) != 0 || agent.uid != geteuid()) {
    return nullptr;
  }
  fcntl(*descriptor, F_SETFD, FD_CLOEXEC);
  return std::shared_ptr<AgentLink>(new AgentLink(*descriptor));
}

AgentLink::~AgentLink() { close(descriptor_); }

void AgentLink::announce_survival() const { (void)send_message(descriptor_, kLivesOn); }

void AgentLink::listen(std::chrono::milliseconds patience) {
  pollfd ready{descriptor_, POLLIN, 0};
  if (patience.count() > 0) {
    (void)poll(&ready, 1, static_cast<int>(patience.count()));
  }
  const std::lock_guard lock(mutex_);
  while (const std::optional<Message> message = gone_ ? std::nullopt : receive(descriptor_)) {
    gone_ = message->text.empty();
    lost_ = lost_ || message->text == kHoldAsLost;
    hold_ = hold_ || lost_ || message->text == kHold;
    if (message->text.starts_with(kBegin)) {
      begin_ = variables_of(message->text);
    }
  }
}

bool AgentLink::hold_requested() {
  listen({});
  const std::lock_guard lock(mutex_);
  return hold_;
}

void AgentLink::report_stall(const std::string& reason) const {
  constexpr std::size_t kLongestReason = 2048;
  (void)send_message(descriptor_, std::string(kWaitsInVain) + reason.substr(0, kLongestReason));
}

std::function<bool()> AgentLink::end_of_generation() {
  const std::lock_guard lock(mutex_);
  return [link = shared_from_this(), generation = generation_] {
    const bool hold = link->hold_requested();
    const std::lock_guard for_generation(link->mutex_);
    return hold || link->generation_ != generation;
  };
}

std::function<bool()> AgentLink::loss_in_generation() {
  const std::lock_guard lock(mutex_);
  return [link = shared_from_this(), generation = generation_] {
    (void)link->hold_requested();
    const std::lock_guard for_generation(link->mutex_);
    return link->lost_ || link->generation_ != generation;
  };
}

bool AgentLink::await_hold(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto gone = [this] {
    const std::lock_guard lock(mutex_);
    return gone_;
  };
  while (!hold_requested() && !gone() && std::chrono::steady_clock::now() < deadline) {
    listen(kGlance);
  }
  return hold_requested();
}

std::optional<Variables> AgentLink::await_begin() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (begin_ || gone_) {
        hold_ = false;
        lost_ = false;
        generation_ += 1;
        return std::exchange(begin_, std::nullopt);
      }
    }
    listen(kGlance);
  }
}

std::optional<Variables> AgentLink::next_generation() {
  (void)send_message(descriptor_, kHeld);
  return await_begin();
}

std::optional<Variables> AgentLink::first_generation() {
  announce_survival();
  return await_begin();
}

}  // namespace rollcall::elastic
