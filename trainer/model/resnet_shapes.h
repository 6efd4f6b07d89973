#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rollcall::model {

/// How deep and wide a ResNet is.
struct ResNetShape {
  std::string_view name;
  std::array<std::int64_t, 4> blocks;  ///< of each stage; 0: the stage is left out
  bool bottleneck = false;             ///< blocks are bottlenecks (1x1, 3x3, 1x1), not pairs of 3x3
  std::int64_t width = 64;             ///< channels of the first stage, which each further one doubles
  /// Images of some 32 x 32 pixels, as in He et al. 2015, section 4.2: they are neither convolved with 7 x 7 at every
  /// second pixel nor pooled before the first stage, but convolved with 3 x 3.
  bool small_images = false;
};

/// All that can be trained: He et al. 2015, section 4.2 with n = 3, and table 1.
inline constexpr std::array kResNets{
    ResNetShape{.name = "resnet20", .blocks = {3, 3, 3, 0}, .width = 16, .small_images = true},
    ResNetShape{.name = "resnet18", .blocks = {2, 2, 2, 2}},
    ResNetShape{.name = "resnet34", .blocks = {3, 4, 6, 3}},
    ResNetShape{.name = "resnet50", .blocks = {3, 4, 6, 3}, .bottleneck = true},
    ResNetShape{.name = "resnet101", .blocks = {3, 4, 23, 3}, .bottleneck = true},
    ResNetShape{.name = "resnet152", .blocks = {3, 8, 36, 3}, .bottleneck = true},
};

}  // namespace rollcall::model
