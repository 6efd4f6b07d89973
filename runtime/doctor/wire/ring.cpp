#include "runtime/doctor/wire/ring.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rollcall::doctor {
namespace {

/// 256 KiB: far above the cost of a system call, far below the vector, so that all links of the ring work at once.
constexpr std::size_t kPiece = std::size_t{1} << 16;

}  // namespace

std::span<float> Ring::part(std::span<float> data, std::int64_t i) const {
  const std::int64_t size = size_;
  const std::size_t length = data.size() / size_;
  return data.subspan(static_cast<std::size_t>((i % size + size) % size) * length, length);
}

Result<void> Ring::step(std::span<const float> outgoing, std::span<float> incoming) {
  return transfer(right_, std::as_bytes(outgoing), left_, std::as_writable_bytes(incoming), deadline_);
}

Result<void> Ring::reduce_scatter(std::span<float> data) {
  std::vector<float> arrived(data.size() / size_);
  // Part i starts at member i + 1 and goes around once, so that it is complete at member i.
  for (std::int64_t hop = 1; hop < size_; ++hop) {
    if (Result<void> moved = step(part(data, index_ - hop), arrived); !moved) {
      return moved;
    }
    const std::span<float> sum = part(data, index_ - hop - 1);
    std::ranges::transform(sum, arrived, sum.begin(), [](float a, float b) { return a + b; });
  }
  return {};
}

Result<void> Ring::all_gather(std::span<float> data) {
  for (std::int64_t hop = 0; hop < size_ - 1; ++hop) {
    if (Result<void> moved = step(part(data, index_ - hop), part(data, index_ - hop - 1)); !moved) {
      return moved;
    }
  }
  return {};
}

Result<void> Ring::all_reduce(std::span<float> data) {
  const Result<void> reduced = reduce_scatter(data);
  return reduced ? all_gather(data) : reduced;
}

Result<void> Ring::broadcast(std::span<float> data) {
  const bool first = index_ == 0;
  const bool last = index_ + 1 == size_;
  const std::size_t pieces = (data.size() + kPiece - 1) / kPiece;
  const auto piece = [&](std::size_t i) {
    return data.subspan(i * kPiece, std::min(kPiece, data.size() - i * kPiece));
  };
  // Each member hands piece i on while piece i + 1 arrives.
  for (std::size_t round = 0; round <= pieces; ++round) {
    const std::span<float> incoming = !first && round < pieces ? piece(round) : std::span<float>();
    const std::span<float> outgoing = !last && round > 0 ? piece(round - 1) : std::span<float>();
    if (Result<void> moved = step(outgoing, incoming); !moved) {
      return moved;
    }
  }
  return {};
}

}  // namespace rollcall::doctor
