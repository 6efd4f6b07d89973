#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rollcall::model {

/// Depth and width of a ResNet.
struct ResNetShape {
  std::string_view name;
  std::array<std::int64_t, 4> blocks;  ///< number of blocks of each stage; 0: the stage is left out
  bool bottleneck = false;             ///< whether blocks are bottlenecks (1x1, 3x3, 1x1), not pairs of 3x3
  std::int64_t width = 64;             ///< channels of the first stage; each further stage doubles them
  /// Whether the stem is for images of about 32 x 32 pixels, as in He et al. 2015, section 4.2: a 3 x 3 convolution
  /// instead of a 7 x 7 one with stride 2 and pooling.
  bool small_images = false;
};

/// All supported models: He et al. 2015, section 4.2 with n = 3, and table 1.
inline constexpr std::array kResNets{
    ResNetShape{.name = "resnet20", .blocks = {3, 3, 3, 0}, .width = 16, .small_images = true},
    ResNetShape{.name = "resnet18", .blocks = {2, 2, 2, 2}},
    ResNetShape{.name = "resnet34", .blocks = {3, 4, 6, 3}},
    ResNetShape{.name = "resnet50", .blocks = {3, 4, 6, 3}, .bottleneck = true},
    ResNetShape{.name = "resnet101", .blocks = {3, 4, 23, 3}, .bottleneck = true},
    ResNetShape{.name = "resnet152", .blocks = {3, 8, 36, 3}, .bottleneck = true},
};

}  // namespace rollcall::model
