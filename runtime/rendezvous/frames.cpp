#include "runtime/rendezvous/frames.h"

#include <algorithm>
#include <utility>

namespace rollcall::rendezvous {
namespace {

/// Limit of memory that is kept after sending.
constexpr std::size_t kMostKept = std::size_t{1} << 14;

}  // namespace

FrameBuffer::FrameBuffer(End end, Seal seal) : sealing_(std::make_unique<Sealing>(end, std::move(seal))) {
  if (end == End::Client) {
    outgoing_ = sealing_->opening();
  }
}

void FrameBuffer::append(std::string_view bytes) {
  bytes_.erase(0, std::exchange(taken_, 0));
  bytes_ += bytes;
  if (!opened()) {
    receive_opening();
  }
}

void FrameBuffer::receive_opening() {
  const std::string_view protocol = arrived().substr(0, Sealing::kProtocol.size());
  if (!Sealing::kProtocol.starts_with(protocol)) {
    broken_ = true;
    return;
  }
  if (size() < Sealing::kOpening) {
    return;
  }
  sealing_->take_opening(arrived().substr(0, Sealing::kOpening));
  taken_ += Sealing::kOpening;
  if (sealing_->end() == End::Server) {
    outgoing_ += sealing_->opening();
  }
  for (const std::string& text : std::exchange(waiting_, {})) {
    queue(text);
  }
  waiting_size_ = 0;
}

void FrameBuffer::clear() {
  bytes_.clear();
  taken_ = 0;
}

std::optional<std::size_t> FrameBuffer::length() const {
  if (size() < kFrameHeader || !opened()) {
    return std::nullopt;
  }
  std::size_t length = 0;
  for (const char byte : arrived().substr(0, kFrameHeader)) {
    length = (length << 8) | static_cast<unsigned char>(byte);
  }
  return length;
}

bool FrameBuffer::broken(std::size_t longest) const {
  return broken_ || length().value_or(0) > most(longest) - kFrameHeader;
}

std::optional<std::string> FrameBuffer::next() {
  const std::optional<std::size_t> frame_size = length();
  if (!frame_size || broken() || size() < kFrameHeader + *frame_size) {
    return std::nullopt;
  }
  const std::string_view frame = arrived().substr(kFrameHeader, *frame_size);
  std::optional<std::string> text = sealing_ ? sealing_->open(frame) : std::string(frame);
  taken_ += kFrameHeader + *frame_size;
  broken_ = !text;
  proven_ |= text.has_value();
  return text;
}

void FrameBuffer::queue(std::string_view text) {
  if (!opened()) {
    waiting_.emplace_back(text);
    waiting_size_ += text.size();
    return;
  }
  outgoing_.erase(0, std::exchange(sent_, 0));
  const std::size_t length = sealing_ ? sealing_->sealed_size(text) : text.size();
  for (int shift = 24; shift >= 0; shift -= 8) {
    outgoing_ += static_cast<char>((length >> shift) & 0xffU);
  }
  if (sealing_) {
    sealing_->seal(text, outgoing_);
  } else {
    outgoing_ += text;
  }
}

void FrameBuffer::sent(std::size_t count) {
  sent_ += count;
  if (sent_ == outgoing_.size()) {
    sent_ = 0;
    outgoing_.clear();
    if (outgoing_.capacity() > kMostKept) {
      std::string().swap(outgoing_);  // assignment would not release the memory
    }
  }
}

}  // namespace rollcall::rendezvous
