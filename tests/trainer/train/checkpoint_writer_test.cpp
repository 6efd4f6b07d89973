#include "trainer/train/checkpoints/checkpoint_writer.h"

#include <gtest/gtest.h>

#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/torch.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

using checkpoint::format::checkpoint_name;
using checkpoint::format::TemporaryFolder;

/// A model of one parameter, large enough that its copy takes milliseconds, and one statistic.
struct Model {
  at::Tensor parameter = torch::full({64, 64 << 10}, 0.0F);
  at::Tensor statistic = torch::full({8}, 0.0F);

  [[nodiscard]] checkpoint::StateParts parts() const {
    checkpoint::StateParts parts;
    parts.add("/model/weight", "weight", parameter);
    parts.add_from_rank_zero("/model/mean", "mean", statistic);
    parts.share(0, 1);
    return parts;
  }
};

const JobContext kAlone;

/// The lowest and the highest number of a tensor in a checkpoint.
std::pair<float, float> range_in(const std::string& path, const std::string& tensor) {
  const auto read = checkpoint::format::read_checkpoint(path);
  EXPECT_TRUE(read) << read.error().message();
  for (const auto& view : read->content.tensors) {
    if (view.path == tensor) {
      const auto* const first = reinterpret_cast<const float*>(view.bytes.data());
      const auto [low, high] = std::minmax_element(first, first + view.bytes.size() / sizeof(float));
      return {*low, *high};
    }
  }
  ADD_FAILURE() << tensor << " is not there";
  return {};
}

// The loop calls before_update() between a save and the next optimizer step. Without it, the update would change
// parameters that are still being copied.
TEST(CheckpointWriter, BackgroundSaveHoldsItsOwnStepIfTheUpdateWaits) {
  const TemporaryFolder folder;
  const config::CheckpointConfig config{.background = true};
  CheckpointWriter writer(config, kAlone);
  Model model;
  for (int step = 1; step <= 3; ++step) {
    const auto number = static_cast<float>(step);
    model.statistic.fill_(number);  // the forward pass
    writer.before_update();
    model.parameter.fill_(number);
    ASSERT_TRUE(writer.may_save(Urgency::Due, false));
    ASSERT_TRUE(
        writer.save({.folder = folder.path(), .step = step}, model.parts(), {"weight"}, Urgency::Due, seconds_now()));
  }
  model.statistic.fill_(4);
  writer.before_update();
  model.parameter.fill_(4);
  ASSERT_TRUE(writer.may_save(Urgency::Due, false));  // waits
  for (int step = 1; step <= 3; ++step) {
    const auto number = static_cast<float>(step);
    for (const char* tensor : {"/model/weight", "/model/mean"}) {
      EXPECT_EQ(range_in(folder.file(checkpoint_name(step)), tensor), std::pair(number, number)) << tensor;
    }
  }
}

TEST(CheckpointWriter, SkipsOnlySkippableSavesDuringAnotherSave) {
  const config::CheckpointConfig config{.background = true};
  CheckpointWriter writer(config, kAlone);
  EXPECT_FALSE(writer.may_save(Urgency::MaySkip, true));
  EXPECT_TRUE(writer.may_save(Urgency::MaySkip, false));
  EXPECT_TRUE(writer.may_save(Urgency::Due, true));
  EXPECT_TRUE(writer.may_save(Urgency::Final, true));
  const config::CheckpointConfig patient{.background = true, .skip_while_saving = false};
  EXPECT_TRUE(CheckpointWriter(patient, kAlone).may_save(Urgency::MaySkip, true));
}

TEST(CheckpointWriter, ReplicatingToAPeerSkipsNoFileSave) {
  const TemporaryFolder folder;
  for (const bool background : {true, false}) {
    const config::CheckpointConfig config{.background = background};
    CheckpointWriter writer(config, kAlone);
    const Model model;
    PeerReplicas copies;
    EXPECT_TRUE(writer.replicate_to_peer({.step = 1}, model.parts(), {"weight"}, copies, 0));
    EXPECT_TRUE(writer.may_save(Urgency::MaySkip, true));
    ASSERT_EQ(copies.parts().size(), 1U);
    EXPECT_FALSE(writer.saved_once());
    const auto reports = writer.take_reports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_TRUE(reports[0].outcome.written);
    EXPECT_EQ(reports[0].copied_bytes, checkpoint::bytes_of(model.parts()));
    EXPECT_TRUE(
        writer.save({.folder = folder.path(), .step = 2}, model.parts(), {"weight"}, Urgency::Due, seconds_now()));
    EXPECT_FALSE(writer.may_save(Urgency::MaySkip, true));
    writer.finish_save();
    EXPECT_TRUE(writer.saved_once());
    EXPECT_FALSE(writer.take_reports().at(0).copied_bytes);
  }
}

TEST(CheckpointWriter, GivesUpAtTheLimitOfConsecutiveFailures) {
  const TemporaryFolder folder;
  const config::CheckpointConfig config{.background = false, .retries = 0, .most_failures = 2};
  CheckpointWriter writer(config, kAlone);
  const Model model;
  const auto save = [&](std::int64_t step, bool fails) {
    if (fails) {
      std::filesystem::create_directories(folder.file(checkpoint_name(step)) + "/in the way");
    }
    EXPECT_TRUE(
        writer.save({.folder = folder.path(), .step = step}, model.parts(), {"weight"}, Urgency::Due, seconds_now()));
    return writer.gave_up();
  };
  EXPECT_FALSE(save(1, true));
  EXPECT_FALSE(save(2, false));
  EXPECT_FALSE(save(3, true));
  EXPECT_TRUE(save(4, true));
  EXPECT_EQ(writer.last_failure().kind, ErrorKind::CannotCreate);
  EXPECT_EQ(writer.take_reports().size(), 4U);
}

}  // namespace
}  // namespace rollcall::train
