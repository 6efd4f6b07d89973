#include "runtime/store/channel.h"

#include <algorithm>
#include <string_view>

namespace rollcall::store {
namespace {

/// Limit of a message in one frame, in bytes; most messages are smaller.
constexpr std::size_t kPiece = std::size_t{1} << 20;
static_assert(kPiece < rendezvous::kLongestFrame);

constexpr char kLast = 0;
constexpr char kMoreFollow = 1;

}  // namespace

void Channel::queue(std::string message) {
  queued_ += message.size() + 1;
  queue_.push_back(std::move(message));
}

bool Channel::is_full() { return unsent() >= kPiece; }

bool Channel::flush() {
  do {
    while (!queue_.empty() && socket_.frames().unsent() < kPiece) {
      queue_next();
    }
    if (!socket_.flush()) {
      return false;
    }
  } while (!queue_.empty() && socket_.frames().unsent() == 0);
  return true;
}

/// Turns the first message in the queue, or a piece of it, into a frame.
void Channel::queue_next() {
  const std::string_view left = std::string_view(queue_.front()).substr(taken_of_first_);
  const std::size_t size = std::min(left.size(), kPiece);
  const bool last = size == left.size();
  socket_.frames().queue(std::string(1, last ? kLast : kMoreFollow).append(left.substr(0, size)));
  queued_ -= last ? size + 1 : size;
  taken_of_first_ = last ? 0 : taken_of_first_ + size;
  if (last) {
    queue_.pop_front();
  }
}

std::optional<std::string> Channel::next() {
  while (!broken_) {
    const std::optional<std::string> frame = socket_.frames().next();
    if (!frame) {
      return std::nullopt;
    }
    const bool last = frame->starts_with(kLast);
    broken_ = (!last && !frame->starts_with(kMoreFollow)) || arrived_.size() + frame->size() - 1 > longest_;
    if (!broken_) {
      arrived_.append(*frame, 1);
    }
    if (last && !broken_) {
      return std::exchange(arrived_, {});
    }
  }
  return std::nullopt;
}

}  // namespace rollcall::store
