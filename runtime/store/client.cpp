#include "runtime/store/client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "runtime/rendezvous/connect.h"

namespace rollcall::store {

Result<std::shared_ptr<Client>> Client::over(rendezvous::Socket head, std::size_t most) {
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    return fail("store", "", "cannot be used: " + errno_text(errno), "raising the limit of open files (ulimit -n)",
                ErrorKind::Unavailable);
  }
  return std::shared_ptr<Client>(new Client(std::move(head), most, wake));
}

Client::~Client() { close(wake_); }

Answer Client::carry_out(Request request, const Patience& patience) {
  std::unique_lock lock(mutex_);
  request.quiet = request.operation == Operation::Set || request.operation == Operation::Append;
  if (!request.quiet) {
    return await(lock, request, patience);
  }
  send(encode(++asked_, request));
  if (!gone_ && channel_.has_unsent()) {
    return await(lock, {Operation::Check}, patience);  // its answer implies that all earlier requests have arrived
  }
  return {.status = gone_ ? Answer::Status::Gone : Answer::Status::Done};
}

Answer Client::await(std::unique_lock<std::mutex>& lock, const Request& request, const Patience& patience) {
  const std::uint64_t number = ++asked_;
  Waiter waiter;
  waiters_.emplace(number, &waiter);
  send(encode(number, request));
  WaitLimit limit(patience);
  for (bool over = false; !waiter.answer && !gone_ && !over; over = limit.over()) {
    if (reading_) {
      waiter.changed.wait_until(lock, limit.next());
    } else {
      read_for_all(lock, limit.next());
    }
  }
  waiters_.erase(number);
  if (!waiter.answer && !gone_) {
    send(encode(number, Request{Operation::Cancel}));
  }
  if (!reading_ && !waiters_.empty()) {
    waiters_.begin()->second->changed.notify_one();  // that thread reads from now on
  }
  if (!waiter.answer) {
    return {.status = gone_ ? Answer::Status::Gone : Answer::Status::TimedOut};
  }
  if (!refusal_.empty()) {
    return {.status = Answer::Status::Refused, .refusal = "of an earlier request: " + std::exchange(refusal_, {})};
  }
  return *std::move(waiter.answer);
}

/// Sends a message. The reading thread sends what does not fit into the connection: while this end does not read, the
/// peer may not read either.
void Client::send(std::string message) {
  channel_.queue(std::move(message));
  if (!channel_.flush()) {
    lose();
  } else if (reading_ && channel_.has_unsent()) {
    eventfd_write(wake_, 1);
  }
}

/// Waits once for the connection, without the lock.
void Client::read_for_all(std::unique_lock<std::mutex>& lock, Patience::Clock::time_point until) {
  const auto events = static_cast<short>(channel_.has_unsent() ? POLLIN | POLLOUT : POLLIN);
  std::array<pollfd, 2> waiting{pollfd{channel_.descriptor(), events, 0}, pollfd{wake_, POLLIN, 0}};
  reading_ = true;
  lock.unlock();
  poll(waiting.data(), waiting.size(), rendezvous::milliseconds_until(until));
  lock.lock();
  reading_ = false;
  if (waiting[1].revents != 0) {
    eventfd_t count = 0;
    eventfd_read(wake_, &count);
  }
  const bool there = channel_.take_arrived();
  if (!hand_out() || !there || !channel_.flush()) {
    lose();
  }
}

/// Distributes the answers; returns false where a message is not an answer.
bool Client::hand_out() {
  while (const std::optional<std::string> message = channel_.next()) {
    std::optional<Numbered<Answer>> answer = parse_answer(*message);
    if (!answer) {
      return false;
    }
    if (const auto waiter = waiters_.find(answer->number); waiter != waiters_.end()) {
      waiter->second->answer = std::move(answer->content);
      waiter->second->changed.notify_one();
      waiters_.erase(waiter);
    } else if (answer->content.status == Answer::Status::Refused) {
      refusal_ = std::move(answer->content.refusal);
    }
  }
  return !channel_.broken();
}

void Client::lose() {
  gone_ = true;
  for (const auto& [number, waiter] : waiters_) {
    waiter->changed.notify_one();
  }
}

}  // namespace rollcall::store
