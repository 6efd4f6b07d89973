#include "trainer/checkpoint/background/snapshot.h"

#include <cstdlib>
#include <utility>

namespace rollcall::checkpoint::background {
namespace {

constexpr std::size_t kPage = 4096;

/// Returns the size padded to cache lines, so that each tensor begins at one.
std::size_t padded(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

std::size_t bytes_of(const LiveTensor& tensor) {
  return tensor.values.data == nullptr ? 0 : format::total_bytes(tensor.values);
}

/// Returns whether the copy of a device's memory is written as it is.
bool is_final(const LiveTensor& tensor) {
  return tensor.is_copy && format::is_contiguous(tensor.values.sizes, tensor.values.strides);
}

std::size_t bytes_to_copy(const LiveTensor& tensor) { return is_final(tensor) ? 0 : bytes_of(tensor); }

}  // namespace

void Snapshot::Free::operator()(std::byte* memory) const { std::free(memory); }

Result<void> Snapshot::reserve(std::size_t bytes) {
  if (bytes <= capacity_) {
    return {};
  }
  memory_.reset();
  capacity_ = 0;
  const std::size_t whole_pages = (bytes + kPage - 1) / kPage * kPage;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, whole_pages)));
  if (!memory_) {
    return fail("--checkpoint-mode", "async", "there is no memory for a copy of " + std::to_string(bytes) + " bytes",
                "--checkpoint-mode=sync, or requesting more memory (--mem)", ErrorKind::Unavailable);
  }
  capacity_ = whole_pages;
  return {};
}

Result<void> Snapshot::begin(LiveContent live) {
  std::size_t bytes = 0;
  for (const LiveTensor& tensor : live.tensors) {
    bytes += padded(bytes_to_copy(tensor));
  }
  RETURN_IF_ERROR(reserve(bytes));
  content_.tensors.clear();
  content_.values = std::move(live.values);
  rest_.clear();
  arrived_.clear();
  next_ = 0;
  copied_ = 0;
  owners_ = std::move(live.owners);
  wait_arrived_ = std::move(live.wait_arrived);
  std::byte* free = memory_.get();
  for (LiveTensor& tensor : live.tensors) {
    const std::span<std::byte> to(free, bytes_to_copy(tensor));
    free += padded(to.size());
    tensor.view.bytes = is_final(tensor) ? std::span(tensor.values.data, bytes_of(tensor)) : to;
    content_.tensors.push_back(std::move(tensor.view));
    if (to.empty()) {
      continue;
    }
    if (tensor.is_copy) {
      arrived_.push_back({std::move(tensor.values), to});
    } else if (tensor.changes_at_once) {
      format::copy_row_major(tensor.values, to);
    } else {
      rest_.push_back({std::move(tensor.values), to});
    }
  }
  return {};
}

void Snapshot::copy_rest() {
  for (std::size_t i = next_++; i < rest_.size(); i = next_++) {
    format::copy_row_major(rest_[i].from, rest_[i].to);
    if (++copied_ == rest_.size()) {
      copied_.notify_all();
    }
  }
  wait_copied();
}

Result<void> Snapshot::take_arrived() {
  RETURN_IF_ERROR(wait_arrived_ ? wait_arrived_() : Result<void>());
  for (const Copy& copy : arrived_) {
    format::copy_row_major(copy.from, copy.to);
  }
  return {};
}

void Snapshot::wait_copied() const {
  for (std::size_t copied = copied_; copied < rest_.size(); copied = copied_) {
    copied_.wait(copied);
  }
}

}  // namespace rollcall::checkpoint::background
