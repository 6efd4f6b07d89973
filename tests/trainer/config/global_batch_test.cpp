#include "trainer/config/global_batch.h"

#include <gtest/gtest.h>

#include <random>

#include "trainer/config/options.h"
#include "trainer/config/train_config.h"

namespace rollcall::config {
namespace {

using settings::Settings;

Settings with(const std::string& images, const std::string& most) {
  Settings settings(trainer_table());
  EXPECT_TRUE(settings.set("global-batch", images, "--global-batch"));
  EXPECT_TRUE(settings.set("batch-size", most, "--batch-size"));
  return settings;
}

TEST(GlobalBatch, IsDividedIntoTheFewestMicroBatches) {
  const auto expect = [](std::int64_t images, std::int64_t ranks, std::int64_t most, std::int64_t size,
                         std::int64_t number) {
    const std::optional<RankBatch> part = divide_global_batch(images, ranks, most);
    ASSERT_TRUE(part) << images << " " << ranks;
    EXPECT_EQ(part->batch_size, size);
    EXPECT_EQ(part->accumulation, number);
  };
  expect(256, 1, 64, 64, 4);
  expect(256, 2, 64, 64, 2);
  expect(256, 4, 64, 64, 1);
  expect(256, 8, 64, 32, 1);
  expect(192, 2, 64, 48, 2);
  expect(3, 3, 64, 1, 1);
}

TEST(GlobalBatch, KeepsTheImagesOfAStepOnAnyNumberOfRanksThatCanDivideIt) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t images = 1 + random() % 5000;
    const std::int64_t ranks = 1 + random() % 64;
    const std::int64_t most = 1 + random() % 128;
    if (const std::optional<RankBatch> part = divide_global_batch(images, ranks, most)) {
      EXPECT_EQ(part->batch_size * part->accumulation * ranks, images);
      EXPECT_LE(part->batch_size, most);
      for (std::int64_t fewer = 1; fewer < part->accumulation; ++fewer) {
        EXPECT_TRUE(part->batch_size * part->accumulation % fewer != 0 ||
                    part->batch_size * part->accumulation / fewer > most);
      }
    } else {
      EXPECT_TRUE(images % ranks != 0 || images / ranks > most) << images << " " << ranks << " " << most;
    }
  }
}

TEST(GlobalBatch, SetsBatchSizeAccumulationAndScaling) {
  Settings settings = with("256", "64");
  ASSERT_TRUE(apply_global_batch(settings, 2));
  EXPECT_EQ(settings.integer("batch-size"), 64);
  EXPECT_EQ(settings.integer("grad-accumulation"), 2);
  EXPECT_EQ(settings.text("lr-scaling"), "none");
  EXPECT_EQ(settings.value("batch-size").origin, "global-batch");
}

TEST(GlobalBatch, WithoutItNothingChanges) {
  Settings settings = with("0", "64");
  ASSERT_TRUE(apply_global_batch(settings, 2));
  EXPECT_EQ(settings.text("lr-scaling"), "linear");
  EXPECT_TRUE(settings.is_default("grad-accumulation"));
}

TEST(GlobalBatch, RefusesAnAccumulationOfItsOwn) {
  Settings settings = with("256", "64");
  ASSERT_TRUE(settings.set("grad-accumulation", "2", "--grad-accumulation"));
  const Error error = check_options_have_effect(settings).error();
  EXPECT_EQ(error.setting, "--grad-accumulation");
  EXPECT_EQ(error.action, "leaving it out");  // --global-batch=0 would be another learning rate
}

TEST(GlobalBatch, AnElasticTrainingContinuesWithTheNearest) {
  Settings settings = with("9", "64");
  ASSERT_TRUE(settings.set("elastic", "on", "--elastic"));
  const Result<std::string> warning = apply_global_batch(settings, 2);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("continuing with steps of 8 images"), std::string::npos) << *warning;
  EXPECT_EQ(settings.integer("batch-size"), 4);
  EXPECT_EQ(settings.text("global-batch"), "9");  // three ranks return to it
}

TEST(GlobalBatch, ARefusalNamesTheNearestThatWorks) {
  Settings odd = with("100", "64");
  const Error three = apply_global_batch(odd, 3).error();
  EXPECT_EQ(three.setting, "--global-batch");
  EXPECT_EQ(three.kind, ErrorKind::Usage);
  EXPECT_NE(three.action.find("--global-batch=99,"), std::string::npos) << three.action;
  Settings prime = with("254", "64");  // 127 images a rank: only one by one
  EXPECT_NE(apply_global_batch(prime, 2).error().action.find("--global-batch=252,"), std::string::npos);
}

}  // namespace
}  // namespace rollcall::config
