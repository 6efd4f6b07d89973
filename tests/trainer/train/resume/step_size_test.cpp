#include "trainer/train/resume/same_training.h"

#include <gmock/gmock.h>

namespace rollcall::train {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

TEST(StepSize, AccumulationCompensatesForRanksIfDivisible) {
  EXPECT_THAT(accumulation_for(256, 2, 64), Optional(2));
  EXPECT_THAT(accumulation_for(256, 4, 64), Optional(1));
  EXPECT_EQ(accumulation_for(256, 3, 64), std::nullopt);
  EXPECT_EQ(accumulation_for(256, 8, 64), std::nullopt);
  EXPECT_EQ(accumulation_for(0, 1, 1), std::nullopt);
}

TEST(StepSize, SuggestsTheLargestBatchSizeThatDivides) {
  EXPECT_THAT(batch_size_for(256, 8, 64), Optional(32));
  EXPECT_THAT(batch_size_for(240, 6, 32), Optional(20));
  EXPECT_EQ(batch_size_for(256, 3, 64), std::nullopt);
  EXPECT_EQ(batch_size_for(4, 8, 64), std::nullopt);
}

/// For all sizes, the advice keeps the number of images per step.
TEST(StepSize, AdvicePreservesTheImagesPerStep) {
  for (std::int64_t images = 1; images <= 60; ++images) {
    for (std::int64_t ranks = 1; ranks <= 8; ++ranks) {
      for (std::int64_t most = 1; most <= 12; ++most) {
        const auto batch_size = batch_size_for(images, ranks, most);
        EXPECT_EQ(batch_size.has_value(), images % ranks == 0);
        if (batch_size) {
          EXPECT_LE(*batch_size, most);
          EXPECT_EQ((StepSize{ranks, *batch_size, *accumulation_for(images, ranks, *batch_size)}.images()), images);
        }
      }
    }
  }
}

TEST(StepSize, PrintsNothingIfNothingChanged) {
  const StepSizeChange change = step_size_change({4, 128, 1}, 512, {4, 64, 2});
  EXPECT_THAT(change.note, IsEmpty());
  EXPECT_THAT(change.warning, IsEmpty());
}

TEST(StepSize, NotesAnUnchangedNumberOfImagesPerStep) {
  const StepSizeChange change = step_size_change({4, 64, 1}, 256, {1, 64, 4});
  EXPECT_EQ(change.note, "a step keeps its 256 images from 4 ranks (--grad-accumulation=4)");
  EXPECT_THAT(change.warning, IsEmpty());
}

TEST(StepSize, ReturnsToTheRequestedImagesIfRanksDivideThem) {
  const StepSizeChange back = step_size_change({7, 64, 1}, 512, {4, 64, 2});
  EXPECT_EQ(back.note, "a step has the requested 512 images again; it had 448 with 7 ranks (--grad-accumulation=2)");
  EXPECT_THAT(back.warning, IsEmpty());
  const StepSizeChange other = step_size_change({7, 64, 1}, 512, {6, 64, 1});
  EXPECT_THAT(
      other.warning,
      HasSubstr(
          "a step has 384 images with 6 ranks, but had 448 with 7 ranks in the checkpoint (512 were requested); "));
  EXPECT_THAT(other.warning, HasSubstr("try using a number of ranks that divides 512"));
  EXPECT_THAT(step_size_change({7, 64, 1}, 512, {7, 64, 1}).warning, IsEmpty());
}

TEST(StepSize, WarnsAboutAnotherStepSizeAndAdvisesHowToKeepIt) {
  const auto warning = [](const StepSize& then, const StepSize& now) {
    return step_size_change(then, then.images(), now).warning;
  };
  EXPECT_THAT(warning({4, 64, 1}, {1, 64, 1}),
              HasSubstr("--grad-accumulation: 1: a step has 64 images with 1 rank, but had 256 with 4 ranks"));
  EXPECT_THAT(warning({4, 64, 1}, {1, 64, 1}), HasSubstr("try --grad-accumulation=4, or leaving it out"));
  EXPECT_THAT(warning({4, 64, 1}, {8, 64, 1}), HasSubstr("try --batch-size=32 --grad-accumulation=1"));
  EXPECT_THAT(warning({4, 64, 1}, {3, 64, 1}), HasSubstr("try using a number of ranks that divides 256"));
}

}  // namespace
}  // namespace rollcall::train
