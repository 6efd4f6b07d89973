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
  std::int64_t groups = 1;        ///< groups of the 3x3 convolution of a bottleneck (Xie et al. 2017)
  std::int64_t group_width = 64;  ///< channels of each group in the first stage

  /// Returns the channels of a bottleneck's 3x3 convolution in a stage of `stage_width` channels.
  [[nodiscard]] constexpr std::int64_t inner_width(std::int64_t stage_width) const {
    return stage_width * group_width / 64 * groups;
  }
};

/// Initial values. Torchvision: convolutions normal with variance 2 / fan_out, `fc` as nn::Linear does. Goyal: `fc`
/// normal with standard deviation 0.01, and without bias (Goyal et al. 2017, section 5.1). FanIn: convolutions with
/// variance 2 / fan_in.
enum class Initialisation { Torchvision, Goyal, FanIn };

struct ResNetOptions {
  std::int64_t num_classes = 1000;
  /// Three 3x3 convolutions instead of the stem's 7x7 one, and average pooling before the 1x1 convolution of a shortcut
  /// (ResNet-D: He et al. 2019, section 4.1), with the names of timm's resnet50d.
  bool deep_stem = false;
  /// Convolutions with a stride and at least 16 channels blur their input first (Zhang 2019), as with FFCV's
  /// apply_blurpool().
  bool blur_pool = false;
  Initialisation initialisation = Initialisation::Torchvision;
  /// The last BatchNorm of every block starts with weight 0, so that each block starts as the identity
  /// (Goyal et al. 2017, section 5.1).
  bool zero_init_residual = false;
  /// Probability that an image skips the last block's branch in training; earlier blocks have proportionally lower
  /// ones, the first 0 (Huang et al. 2016, in the form of timm's drop_path_rate).
  double stochastic_depth = 0;
  double dropout = 0;  ///< of the features before the last layer
};

/// All supported models, with torchvision's names: He et al. 2015, section 4.2 with n = 3, and table 1; Xie et al. 2017
/// (ResNeXt); Zagoruyko and Komodakis 2016 (Wide ResNet).
inline constexpr std::array kResNets{
    ResNetShape{.name = "resnet20", .blocks = {3, 3, 3, 0}, .width = 16, .small_images = true},
    ResNetShape{.name = "resnet18", .blocks = {2, 2, 2, 2}},
    ResNetShape{.name = "resnet34", .blocks = {3, 4, 6, 3}},
    ResNetShape{.name = "resnet50", .blocks = {3, 4, 6, 3}, .bottleneck = true},
    ResNetShape{.name = "resnet101", .blocks = {3, 4, 23, 3}, .bottleneck = true},
    ResNetShape{.name = "resnet152", .blocks = {3, 8, 36, 3}, .bottleneck = true},
    ResNetShape{.name = "resnext50_32x4d", .blocks = {3, 4, 6, 3}, .bottleneck = true, .groups = 32, .group_width = 4},
    ResNetShape{
        .name = "resnext101_32x8d", .blocks = {3, 4, 23, 3}, .bottleneck = true, .groups = 32, .group_width = 8},
    ResNetShape{
        .name = "resnext101_64x4d", .blocks = {3, 4, 23, 3}, .bottleneck = true, .groups = 64, .group_width = 4},
    ResNetShape{.name = "wide_resnet50_2", .blocks = {3, 4, 6, 3}, .bottleneck = true, .group_width = 128},
    ResNetShape{.name = "wide_resnet101_2", .blocks = {3, 4, 23, 3}, .bottleneck = true, .group_width = 128},
};

}  // namespace rollcall::model
