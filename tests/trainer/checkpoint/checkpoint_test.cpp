#include "trainer/checkpoint/checkpoint.h"
#include "tests/support/whole_checkpoint.h"

#include <gmock/gmock.h>
#include <filesystem>
#include <limits>

#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/model/state.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {
namespace {

using format::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

/// A convolution, a batch norm and a linear layer, named as torchvision names its parts.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t classes = 10) {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).bias(false)));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(8));
    layer1 = register_module("layer1", torch::nn::Sequential(torch::nn::Linear(8, 8)));
    fc = register_module("fc", torch::nn::Linear(8, classes));
  }

  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor features = torch::dropout(torch::relu(bn1->forward(conv1->forward(images))), 0.2, is_training());
    return fc->forward(layer1->forward(features.mean({2, 3})));
  }

  torch::nn::Conv2d conv1{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr};
  torch::nn::Sequential layer1{nullptr};
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(Net);

enum class Kind { Sgd, AdamW };

/// A net with its optimizer: two groups, as for weight decay on some parameters only.
struct Training {
  explicit Training(Kind kind, std::uint64_t seed, std::int64_t classes = 10) {
    torch::manual_seed(seed);
    net = Net(classes);
    net->conv1->weight.set_data(net->conv1->weight.contiguous(at::MemoryFormat::ChannelsLast));
    std::vector<at::Tensor> decayed;
    std::vector<at::Tensor> plain;
    for (const at::Tensor& parameter : net->parameters()) {
      (parameter.dim() > 1 ? decayed : plain).push_back(parameter);
    }
    std::vector<torch::optim::OptimizerParamGroup> groups;
    if (kind == Kind::Sgd) {
      const auto options = [](double decay) {
        return torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(decay);
      };
      groups.emplace_back(decayed, std::make_unique<torch::optim::SGDOptions>(options(0.01)));
      groups.emplace_back(plain, std::make_unique<torch::optim::SGDOptions>(options(0.0)));
      optimizer = std::make_unique<torch::optim::SGD>(groups, options(0.0));
    } else {
      const auto options = [](double decay) { return torch::optim::AdamWOptions(0.01).weight_decay(decay); };
      groups.emplace_back(decayed, std::make_unique<torch::optim::AdamWOptions>(options(0.02)));
      groups.emplace_back(plain, std::make_unique<torch::optim::AdamWOptions>(options(0.0)));
      optimizer = std::make_unique<torch::optim::AdamW>(groups, options(0.0));
    }
  }

  /// One step on random images: the generator's state, momentum and statistics all matter.
  void step() {
    const at::Tensor images = torch::randn({4, 3, 8, 8});
    const at::Tensor labels = torch::randint(10, {4});
    optimizer->zero_grad();
    torch::cross_entropy_loss(net->forward(images), labels).backward();
    for (auto& group : optimizer->param_groups()) {
      group.options().set_lr(group.options().get_lr() * 0.9);
    }
    optimizer->step();
    ++progress.global_step;
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      step();
    }
  }

  TrainingState state() {
    return {.model = *net,
            .optimizer = *optimizer,
            .parameter_keys_in_optimizer_order = parameter_keys(net->named_parameters(), *optimizer),
            .progress = progress,
            .rng_per_rank = {cpu_rng_state()},
            .config_json = "{}",
            .argv = {"rollcall-train"}};
  }

  Net net{nullptr};
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  Progress progress;
};

void expect_bit_equal(const Training& a, const Training& b) {
  const auto ours = model::named_state(*a.net);
  const auto theirs = model::named_state(*b.net);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::equal(ours[i].value(), theirs[i].value())) << ours[i].key();
  }
}

std::vector<at::Tensor> copies(const Training& training) {
  std::vector<at::Tensor> tensors;
  for (const auto& entry : model::named_state(*training.net)) {
    tensors.push_back(entry.value().detach().clone());
  }
  return tensors;
}

class CheckpointWithOptimizer : public testing::TestWithParam<Kind> {};

TEST_P(CheckpointWithOptimizer, ResumesAnInterruptedTrainingBitForBit) {
  const TemporaryFolder folder;
  Training uninterrupted(GetParam(), 1);
  uninterrupted.steps(10);

  Training first(GetParam(), 1);
  first.steps(5);
  ASSERT_TRUE(save(folder.path(), first.state(), {}));

  Training second(GetParam(), 999);
  second.steps(2);  // its own state, which the load must replace
  TrainingState state = second.state();
  const auto loaded = load("auto", folder.path(), state);
  ASSERT_TRUE(loaded) << loaded.error().message();
  ASSERT_TRUE(loaded->has_value());
  ASSERT_TRUE(set_cpu_rng_state(state.rng_per_rank.at(0)));
  second.steps(5);
  expect_bit_equal(second, uninterrupted);
}

TEST_P(CheckpointWithOptimizer, RestoresTheOptionsOfEachParameterGroup) {
  const TemporaryFolder folder;
  Training first(GetParam(), 1);
  first.steps(3);
  ASSERT_TRUE(save(folder.path(), first.state(), {}));
  Training second(GetParam(), 2);
  TrainingState state = second.state();
  ASSERT_TRUE(load("auto", folder.path(), state));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(second.optimizer->param_groups()[i].options().get_lr(),
              first.optimizer->param_groups()[i].options().get_lr());
  }
}

TEST_P(CheckpointWithOptimizer, LoadsWithoutMomentsBeforeTheFirstStep) {
  const TemporaryFolder folder;
  Training first(GetParam(), 1);
  ASSERT_TRUE(save(folder.path(), first.state(), {}));
  Training second(GetParam(), 2);
  second.steps(1);
  TrainingState state = second.state();
  ASSERT_TRUE(load("auto", folder.path(), state));
  EXPECT_TRUE(second.optimizer->state().empty());
  expect_bit_equal(first, second);
}

INSTANTIATE_TEST_SUITE_P(Optimizer, CheckpointWithOptimizer, testing::Values(Kind::Sgd, Kind::AdamW),
                         [](const auto& test) { return test.param == Kind::Sgd ? "Sgd" : "AdamW"; });

TEST(Checkpoint, LoadsIntoTheMemoryAndStridesOfExistingTensors) {
  const TemporaryFolder folder;
  Training first(Kind::Sgd, 1);
  ASSERT_TRUE(save(folder.path(), first.state(), {}));
  Training second(Kind::Sgd, 2);
  const at::Tensor weight = second.net->conv1->weight;
  const void* const place = weight.const_data_ptr();
  TrainingState state = second.state();
  ASSERT_TRUE(load("auto", folder.path(), state));
  EXPECT_EQ(second.net->conv1->weight.const_data_ptr(), place);
  EXPECT_TRUE(second.net->conv1->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(second.net->conv1->weight.requires_grad());
}

TEST(Checkpoint, NamesTensorsInTheOrderOfTheStateDictInPython) {
  std::vector<std::string> keys;
  for (const auto& entry : model::named_state(*Net())) {
    keys.push_back(entry.key());
  }
  EXPECT_THAT(keys, ElementsAre("conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var",
                                "bn1.num_batches_tracked", "layer1.0.weight", "layer1.0.bias", "fc.weight", "fc.bias"));
}

TEST(Checkpoint, RestoresTheProgress) {
  const TemporaryFolder folder;
  Training first(Kind::Sgd, 1);
  first.progress = {3, 12, 345, 768, 0.75, 300, 4, 64, 512, 0xffff'ffff'ffff'fffe};
  first.progress.loss_scale = 1024;
  first.progress.loss_scale_good_steps = 17;
  first.progress.skipped_steps = 5;
  first.progress.validation_due = 2;
  first.progress.not_better = 3;
  first.progress.epoch_totals.loss_sum = 1.5;
  first.progress.epoch_totals.samples = 96;
  first.progress.unrecorded.loss_sum = 0.5;
  first.progress.unrecorded.samples = 32;
  ASSERT_TRUE(save(folder.path(), first.state(), {}));
  Training second(Kind::Sgd, 2);
  TrainingState state = second.state();
  ASSERT_TRUE(load(folder.file("step-00000345.h5"), "", state));
  const Progress& progress = state.progress;
  EXPECT_EQ(progress.epoch, 3);
  EXPECT_EQ(progress.step_in_epoch, 12);
  EXPECT_EQ(progress.global_step, 345);
  EXPECT_EQ(progress.sample_position, 768);
  EXPECT_EQ(progress.best_metric, 0.75);
  EXPECT_EQ(progress.best_step, 300);
  EXPECT_EQ(progress.world_size, 4);
  EXPECT_EQ(progress.batch_size, 64);
  EXPECT_EQ(progress.global_batch_asked, 512);
  EXPECT_EQ(progress.seed, 0xffff'ffff'ffff'fffe);
  EXPECT_EQ(progress.loss_scale, 1024);
  EXPECT_EQ(progress.loss_scale_good_steps, 17);
  EXPECT_EQ(progress.skipped_steps, 5);
  EXPECT_EQ(progress.validation_due, 2);
  EXPECT_EQ(progress.not_better, 3);
  EXPECT_EQ(progress.epoch_totals.loss_sum, 1.5);
  EXPECT_EQ(progress.epoch_totals.samples, 96);
  EXPECT_EQ(progress.unrecorded.loss_sum, 0.5);
  EXPECT_EQ(progress.unrecorded.samples, 32);
}

TEST(Checkpoint, RejectsAnInvalidTrainingPosition) {
  const TemporaryFolder folder;
  Training first(Kind::Sgd, 1);
  first.progress.sample_position = -64;
  ASSERT_TRUE(save(folder.path(), first.state(), {}));
  Training second(Kind::Sgd, 2);
  TrainingState state = second.state();
  const auto loaded = load(folder.file("step-00000000.h5"), "", state);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().reason, "does not hold a valid position of a training");
  EXPECT_EQ(loaded.error().kind, ErrorKind::BadData);
}

TEST(Checkpoint, AFileMayLackTheNumberOfValidationsAndTheParts) {
  const TemporaryFolder folder;
  Training first(Kind::Sgd, 1);
  first.progress.not_better = 3;
  first.progress.data = {{.images = 9, .parts = 7}, {.images = 9, .parts = 7}};
  const TrainingState whole = first.state();
  format::SingleRank alone;
  const auto parts = collect(whole, 0, 1);
  ASSERT_TRUE(parts);
  DeviceCopies copies;
  HostContent host = on_host(*parts, copies);
  for (const char* const added :
       {"/progress/validations_since_best", "/sampler/parts_crc32c", "/validation/parts_crc32c"}) {
    ASSERT_EQ(host.content.values.erase(added), 1U);
  }
  ASSERT_TRUE(background::commit({folder.path(), 0, -1, {}}, host.content, {.writer = "rollcall-train"}, alone));
  Training second(Kind::Sgd, 2);
  TrainingState state = second.state();
  const auto loaded = load("auto", folder.path(), state);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(state.progress.not_better, 0);
  EXPECT_EQ(state.progress.data.train.images, 9);
  EXPECT_EQ(state.progress.data.train.parts, -1);
  EXPECT_EQ(state.progress.data.valid.parts, -1);
}

TEST(Checkpoint, RejectsAnotherVersionWithoutMarkingItDamaged) {
  const TemporaryFolder folder;
  Training first(Kind::Sgd, 1);
  const TrainingState whole = first.state();
  format::SingleRank alone;
  const auto parts = collect(whole, 0, 1);
  ASSERT_TRUE(parts);
  DeviceCopies copies;
  HostContent host = on_host(*parts, copies);
  ASSERT_EQ(host.content.values.erase("/progress/global_batch_asked"), 1U);
  ASSERT_TRUE(background::commit({folder.path(), 0, -1, {}}, host.content, {.writer = "rollcall-train"}, alone));
  Training second(Kind::Sgd, 2);
  TrainingState state = second.state();
  const auto loaded = load("auto", folder.path(), state);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::Mismatch);
  EXPECT_EQ(loaded.error().reason, "has no /progress/global_batch_asked: another version of rollcall wrote it");
  EXPECT_TRUE(std::filesystem::exists(folder.file("step-00000000.h5")));
}

TEST(Checkpoint, RejectsAnotherModelNamingTheFirstDifferenceAndChangesNothing) {
  const TemporaryFolder folder;
  Training thousand(Kind::Sgd, 1, 1000);
  ASSERT_TRUE(save(folder.path(), thousand.state(), {}));
  Training ten(Kind::Sgd, 2);
  const auto before = copies(ten);
  TrainingState state = ten.state();
  const auto loaded = load("auto", folder.path(), state);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::Mismatch);
  EXPECT_THAT(loaded.error().message(),
              HasSubstr("is of another model: fc.weight is [1000,8] in the file and [10,8] in this model; try "));
  const auto after = copies(ten);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(torch::equal(before[i], after[i]));
  }
}

TEST(Checkpoint, RejectsAnotherOptimizerAndChangesNothing) {
  const TemporaryFolder folder;
  Training sgd(Kind::Sgd, 1);
  sgd.steps(1);
  ASSERT_TRUE(save(folder.path(), sgd.state(), {}));
  Training adamw(Kind::AdamW, 2);
  const auto before = copies(adamw);
  TrainingState state = adamw.state();
  const auto loaded = load("auto", folder.path(), state);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::Mismatch);
  EXPECT_THAT(loaded.error().message(), HasSubstr("SGD in the file and AdamW in this run"));
  EXPECT_TRUE(torch::equal(before[0], copies(adamw)[0]));
}

TEST(Checkpoint, RejectsAnImpossibleNumberOfStepsOfAParameter) {
  const auto loaded_with = [](std::int64_t count) {  // AdamW divides by 1 - beta^count
    const TemporaryFolder folder;
    Training first(Kind::AdamW, 1);
    first.steps(1);
    auto& states = first.optimizer->state();
    dynamic_cast<torch::optim::AdamWParamState&>(*states.at(first.net->conv1->weight.unsafeGetTensorImpl()))
        .step(count);
    EXPECT_TRUE(save(folder.path(), first.state(), {}));
    Training second(Kind::AdamW, 2);
    TrainingState state = second.state();
    return load(folder.file("step-00000001.h5"), "", state);
  };
  EXPECT_TRUE(loaded_with(std::int64_t{1} << 53));
  for (const std::int64_t count :
       {std::int64_t{-1}, (std::int64_t{1} << 53) + 1, std::numeric_limits<std::int64_t>::max()}) {
    const auto loaded = loaded_with(count);
    ASSERT_FALSE(loaded) << count;
    EXPECT_EQ(loaded.error().kind, ErrorKind::BadData);
    EXPECT_EQ(loaded.error().reason, "is damaged: it counts " + std::to_string(count) + " steps of a parameter");
  }
}

TEST(Checkpoint, LoadsNothingWithResumeNeverOrAnEmptyFolder) {
  const TemporaryFolder folder;
  Training training(Kind::Sgd, 1);
  TrainingState state = training.state();
  EXPECT_FALSE(load("auto", folder.path(), state)->has_value());
  ASSERT_TRUE(save(folder.path(), training.state(), {}));
  EXPECT_FALSE(load("never", folder.path(), state)->has_value());
}

TEST(Checkpoint, ReportsAMissingResumeFileAsAnErrorOfResume) {
  Training training(Kind::Sgd, 1);
  TrainingState state = training.state();
  const auto loaded = load("/no/such/checkpoint.h5", "", state);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::NoInput);
  EXPECT_THAT(loaded.error().message(),
              HasSubstr("rollcall: --resume: /no/such/checkpoint.h5: No such file or directory"));
}

TEST(Checkpoint, FallsBackToThePreviousCheckpointWithAWarning) {
  const TemporaryFolder folder;
  Training first(Kind::Sgd, 1);
  first.steps(1);
  ASSERT_TRUE(save(folder.path(), first.state(), {}));
  const auto after_one = copies(first);
  first.steps(1);
  ASSERT_TRUE(save(folder.path(), first.state(), {}));
  auto bytes = format::file_bytes(folder.file("step-00000002.h5"));
  bytes.resize(bytes.size() - 100);
  format::write_file(folder.file("step-00000002.h5"), bytes);
  Training second(Kind::Sgd, 2);
  TrainingState state = second.state();
  const auto loaded = load("auto", folder.path(), state);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ((*loaded)->path, folder.file("step-00000001.h5"));
  EXPECT_EQ((*loaded)->warnings.size(), 1U);
  EXPECT_TRUE(torch::equal(after_one[0], copies(second)[0]));
}

TEST(Checkpoint, ReportsAFolderThatCannotBeCreated) {
  const TemporaryFolder folder;
  format::write_file(folder.file("file"), {});
  Training training(Kind::Sgd, 1);
  const auto saved = save(folder.file("file/checkpoints"), training.state(), {});
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().kind, ErrorKind::CannotCreate);
}

TEST(RandomState, ContinuesTheSameSequence) {
  torch::manual_seed(5);
  static_cast<void>(torch::randn({3}));  // leaves half a pair of normal numbers behind
  const auto state = cpu_rng_state();
  const at::Tensor expected = torch::randn({5});
  ASSERT_TRUE(set_cpu_rng_state(state));
  EXPECT_TRUE(torch::equal(torch::randn({5}), expected));
}

TEST(RandomState, RejectsAStateOfAnotherSize) {
  EXPECT_EQ(set_cpu_rng_state({std::byte{1}, std::byte{2}}).error().kind, ErrorKind::BadData);
}

}  // namespace
}  // namespace rollcall::checkpoint
