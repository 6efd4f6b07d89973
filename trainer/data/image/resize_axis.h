#pragma once

#include <cstdint>
#include <vector>

namespace rollcall::data {

/// One axis of a resize: `in` source positions become `out`, of which [begin, begin + count) are wanted.
struct AxisRequest {
  int in = 0;
  int out = 0;
  int begin = 0;
  int count = 0;

  friend bool operator==(const AxisRequest&, const AxisRequest&) = default;
};

/// Source positions [first, first + count).
struct AxisRange {
  int first = 0;
  int count = 0;
};

/// The source positions that have influence on what is wanted. No weight is computed.
[[nodiscard]] AxisRange range_of(const AxisRequest& request);

/// The weights of a triangle filter along one axis. Its memory only grows; planning what was planned last is free.
struct ResizeAxis {
  int taps = 0;                     ///< no wanted position is made of more source positions
  std::vector<std::int32_t> first;  ///< for each wanted position: its first source position, from range_of().first
  std::vector<std::int32_t> count;  ///< ... how many have a weight above 0: 1 ... taps
  std::vector<float> weights;       ///< ... [taps] weights, zeros behind the last; their sum is 1

  void plan(const AxisRequest& request);

  [[nodiscard]] const float* weights_of(int position) const {
    return weights.data() + static_cast<std::ptrdiff_t>(position) * taps;
  }

 private:
  void plan_position(int position, double scale, double support, int origin);

  AxisRequest planned_{};
};

}  // namespace rollcall::data
