#include <gtest/gtest.h>

#include "trainer/torch.h"
#include "trainer/train/observer/tensorboard.h"

namespace rollcall::train {
namespace {

/// Images of one level each, as they are behind the normalisation by ImageNet's mean and deviation.
at::Tensor images_of_levels(const std::vector<float>& levels, std::int64_t height, std::int64_t width) {
  const at::Tensor mean = torch::tensor({0.485F, 0.456F, 0.406F}).view({1, 3, 1, 1});
  const at::Tensor deviation = torch::tensor({0.229F, 0.224F, 0.225F}).view({1, 3, 1, 1});
  const at::Tensor level = torch::tensor(levels).view({-1, 1, 1, 1}) / 255;
  return ((level - mean) / deviation).expand({-1, -1, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(ImageGrid, ArrangesImagesInRowsAndFillsWithBlack) {
  const at::Tensor grid = image_grid(images_of_levels({10, 20, 30, 40, 255}, 2, 3));
  ASSERT_EQ(grid.sizes(), (std::vector<std::int64_t>{4, 9, 3}));
  ASSERT_EQ(grid.scalar_type(), at::kByte);
  ASSERT_TRUE(grid.is_contiguous());
  for (std::size_t y = 0; y < 4; ++y) {
    for (std::size_t x = 0; x < 9; ++x) {
      constexpr std::array<std::array<int, 3>, 2> kLevels{{{10, 20, 30}, {40, 255, 0}}};
      EXPECT_TRUE(grid[static_cast<std::int64_t>(y)][static_cast<std::int64_t>(x)]
                      .eq(kLevels.at(y / 2).at(x / 3))
                      .all()
                      .item<bool>())
          << y << " " << x;
    }
  }
}

TEST(ImageGrid, ShowsAtMostSixteenImagesAndLimitsTheSideLength) {
  EXPECT_EQ(image_grid(images_of_levels(std::vector<float>(20, 7), 8, 8)).sizes(),
            (std::vector<std::int64_t>{32, 32, 3}));
  EXPECT_EQ(image_grid(images_of_levels({7, 8}, 10, 1500)).sizes(), (std::vector<std::int64_t>{5, 1500, 3}));
  EXPECT_FALSE(image_grid(torch::zeros({0, 3, 8, 8})).defined());
}

TEST(ImageGrid, AcceptsBfloat16Images) {
  const at::Tensor grid = image_grid(images_of_levels({100}, 2, 2).to(at::kBFloat16));
  EXPECT_LE((grid.to(at::kInt) - 100).abs().max().item<int>(), 1);
}

}  // namespace
}  // namespace rollcall::train
