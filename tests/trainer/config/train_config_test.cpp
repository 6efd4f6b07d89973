#include "trainer/config/train_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainer/config/options.h"
#include "trainer/tools/checkpoint/program.h"

namespace rollcall::config {
namespace {

using parallel::fsdp::AfterForward;

/// The options where one setting has another value than by default.
parallel::ReplicaOptions with(const std::string& setting, const std::string& value, const std::string& kind) {
  settings::Settings settings(trainer_table());
  EXPECT_TRUE(settings.set("parallel", kind, "test"));
  EXPECT_TRUE(settings.set(setting, value, "test"));
  const Result<TrainConfig> config = make_train_config(settings, {});
  EXPECT_TRUE(config) << (config ? "" : config.error().message());
  return config ? config->parallel.replica : parallel::ReplicaOptions();
}

parallel::DataParallelOptions ddp(const std::string& setting, const std::string& value) {
  const parallel::ReplicaOptions options = with(setting, value, "ddp");
  EXPECT_FALSE(options.sharded);
  return options.data_parallel;
}

parallel::ReplicaOptions fsdp(const std::string& setting, const std::string& value) {
  const parallel::ReplicaOptions options = with(setting, value, "fsdp");
  EXPECT_TRUE(options.sharded);
  return options;
}

TEST(TrainConfig, FindUnusedParametersReachesDdp) {  // --find-unused-parameters
  EXPECT_TRUE(ddp("find-unused-parameters", "on").find_unused_parameters);
  EXPECT_FALSE(ddp("static-graph", "on").find_unused_parameters);
}

TEST(TrainConfig, StaticGraphReachesDdp) {  // --static-graph
  EXPECT_TRUE(ddp("static-graph", "on").static_graph);
  EXPECT_FALSE(ddp("find-unused-parameters", "on").static_graph);
}

TEST(TrainConfig, BroadcastBuffersReachesDdp) {  // --broadcast-buffers
  EXPECT_FALSE(ddp("broadcast-buffers", "off").broadcast_buffers);
  EXPECT_TRUE(ddp("static-graph", "on").broadcast_buffers);
}

TEST(TrainConfig, FirstBucketReachesDdpInMebibytes) {  // --first-bucket
  EXPECT_EQ(ddp("first-bucket", "0.5").first_bucket_bytes, 512U * 1024);
  EXPECT_EQ(ddp("first-bucket", "0.5").bucket_bytes, 25U << 20);
}

TEST(TrainConfig, BucketReachesDdpInMebibytes) {  // --bucket
  EXPECT_EQ(ddp("bucket", "3").bucket_bytes, 3U << 20);
  EXPECT_EQ(ddp("bucket", "3").first_bucket_bytes, 1U << 20);
}

TEST(TrainConfig, ElasticExactSkipsOnlyDamagedImages) {
  for (const auto& [exact, bad, expected] :
       {std::tuple("0", "skip", data::BadSamples::Skip), std::tuple("2", "skip", data::BadSamples::SkipDamaged),
        std::tuple("2", "fail", data::BadSamples::Fail)}) {
    settings::Settings settings(trainer_table());
    ASSERT_TRUE(settings.set("elastic-exact", exact, "the test"));
    ASSERT_TRUE(settings.set("bad-samples", bad, "the test"));
    const Result<DataConfig> config = make_data_config(settings, Environment());
    ASSERT_TRUE(config);
    EXPECT_EQ(config->loading.bad_samples, expected);
  }
}

TEST(TrainConfig, ShardDegreeReachesTheMesh) {  // --shard-degree
  EXPECT_EQ(fsdp("shard-degree", "3").degrees.shard_degree, 3U);
  EXPECT_EQ(fsdp("shard-degree", "3").degrees.replicate_degree, 0U);
}

TEST(TrainConfig, ReplicateDegreeReachesTheMesh) {  // --replicate-degree
  EXPECT_EQ(fsdp("replicate-degree", "3").degrees.replicate_degree, 3U);
  EXPECT_EQ(fsdp("replicate-degree", "3").degrees.shard_degree, 0U);
}

TEST(TrainConfig, ReshardAfterForwardReachesFsdp) {  // --reshard-after-forward
  EXPECT_EQ(fsdp("reshard-after-forward", "on").sharding.after_forward, AfterForward::Shard);
  EXPECT_EQ(fsdp("reshard-after-forward", "off").sharding.after_forward, AfterForward::Keep);
  EXPECT_EQ(fsdp("reshard-after-forward", "4").sharding.after_forward, AfterForward::SmallShard);
  EXPECT_EQ(fsdp("reshard-after-forward", "4").degrees.reshard_degree, 4U);
}

TEST(TrainConfig, AccumulateReachesFsdp) {  // --accumulate
  EXPECT_TRUE(fsdp("accumulate", "whole").sharding.accumulate_whole);
  EXPECT_FALSE(fsdp("accumulate", "shards").sharding.accumulate_whole);
}

TEST(TrainConfig, CpuOffloadReachesFsdp) {  // --cpu-offload
  EXPECT_TRUE(fsdp("cpu-offload", "on").sharding.cpu_offload);
  EXPECT_FALSE(fsdp("accumulate", "shards").sharding.cpu_offload);
}

using Given = std::vector<std::pair<std::string, std::string>>;

/// As given on the command line, or by a file.
Result<TrainConfig> made(const Given& given, const char* file = nullptr) {
  settings::Settings settings(trainer_table());
  for (const auto& [name, value] : given) {
    EXPECT_TRUE(settings.set(name, value, file != nullptr ? file : "--" + name)) << name;
  }
  return make_train_config(settings, {});
}

TEST(TrainConfig, ReplicasRequireElasticAndFsdp) {  // --replicate-to, --replicate-steps
  const std::pair<std::string, std::string> fsdp{"parallel", "fsdp"};
  const std::pair<std::string, std::string> elastic{"elastic", "on"};
  const std::pair<std::string, std::string> replicate{"replicate-to", "neighbour"};
  EXPECT_EQ(made({fsdp, elastic})->parallel.replicate_steps, 0);
  EXPECT_EQ(made({fsdp, elastic, replicate})->parallel.replicate_steps, 10);
  EXPECT_EQ(made({fsdp, elastic, replicate, {"replicate-steps", "3"}})->parallel.replicate_steps, 3);
  EXPECT_EQ(made({fsdp, replicate}).error().setting, "--replicate-to");
  EXPECT_EQ(made({elastic, replicate}).error().setting, "--replicate-to");
  EXPECT_EQ(made({fsdp, elastic, {"replicate-steps", "3"}}).error().setting, "--replicate-steps");
}

struct WithoutEffect {
  Given given;            ///< the last of them has no effect
  std::string effective;  ///< NAME=VALUE, with which it has one
};

TEST(TrainConfig, RejectsAnOptionWithoutEffectNamingTheRequiredOne) {
  const std::vector<WithoutEffect> all{
      {{{"optimizer", "adamw"}, {"momentum", "0.9"}}, "optimizer=sgd"},
      {{{"nesterov", "on"}}, "optimizer=sgd"},
      {{{"optimizer", "sgd"}, {"adam-beta1", "0.8"}}, "optimizer=adamw"},
      {{{"optimizer", "sgd"}, {"adam-beta2", "0.8"}}, "optimizer=adamw"},
      {{{"optimizer", "sgd"}, {"adam-eps", "1e-6"}}, "optimizer=adamw"},
      {{{"optimizer", "lamb"}, {"momentum", "0.9"}}, "optimizer=sgd"},
      {{{"optimizer", "lars"}, {"adam-eps", "1e-6"}}, "optimizer=adamw"},
      {{{"optimizer", "lamb"}, {"lars-trust", "0.1"}}, "optimizer=lars"},
      {{{"optimizer", "sgd"}, {"rmsprop-alpha", "0.9"}}, "optimizer=rmsprop"},
      {{{"ema-steps", "2"}}, "ema=0.9999"},
      {{{"lr-step-epochs", "30"}}, "lr-schedule=step"},
      {{{"lr-schedule", "cosine"}, {"lr-step-factor", "0.5"}}, "lr-schedule=step"},
      {{{"auto-augment", "trivial"}, {"randaugment-ops", "3"}}, "auto-augment=randaugment"},
      {{{"randaugment-magnitude", "9"}}, "auto-augment=randaugment"},
      {{{"auto-augment", "3-augment"}, {"randaugment-magnitude", "9"}}, "auto-augment=randaugment"},
      {{{"random-erase", "0.0"}, {"random-erase-value", "random"}}, "random-erase=0.25"},
      {{{"bad-samples", "fail"}, {"max-bad-samples", "0.1"}}, "bad-samples=skip"},
      {{{"tensorboard-histograms", "5"}}, "tensorboard=on"},
      {{{"shard-degree", "2"}}, "parallel=fsdp"},
      {{{"parallel", "fsdp"}, {"bucket", "5"}}, "parallel=ddp"},
      {{{"elastic-exact", "4"}, {"sync-bn", "on"}}, "elastic-exact=0"},
  };
  for (const auto& [given, effective] : all) {
    const Result<TrainConfig> refused = made(given);
    ASSERT_FALSE(refused) << given.back().first;
    EXPECT_EQ(refused.error().setting, "--" + given.back().first);
    EXPECT_EQ(refused.error().action, "--" + effective + ", or leaving it out");
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
    Given with = given;
    const std::size_t cut = effective.find('=');
    with.insert(with.begin() + static_cast<std::ptrdiff_t>(given.size() - 1),
                {effective.substr(0, cut), effective.substr(cut + 1)});
    const Result<TrainConfig> accepted = made(with);
    EXPECT_TRUE(accepted) << accepted.error().message();
  }
}

TEST(TrainConfig, AcceptsAnOptionWithEachValueThatGivesItAnEffect) {
  const std::vector<std::tuple<std::string, std::vector<std::string>, Given>> all{
      {"optimizer", {"sgd", "lars", "rmsprop"}, {{"momentum", "0.8"}}},
      {"optimizer", {"adamw", "lamb"}, {{"adam-beta1", "0.8"}, {"adam-beta2", "0.8"}}},
      {"optimizer", {"adamw", "lamb", "rmsprop"}, {{"adam-eps", "1e-6"}}},
      {"lr-schedule", {"step", "milestones"}, {{"lr-step-factor", "0.5"}}},
      {"lr-schedule", {"cosine", "linear", "polynomial"}, {{"lr-end-factor", "0.5"}}},
  };
  for (const auto& [other, values, given] : all) {
    for (const std::string& value : values) {
      Given with = given;
      with.insert(with.begin(), {other, value});
      EXPECT_TRUE(made(with)) << other << "=" << value;
    }
  }
}

TEST(TrainConfig, AllowsUnusedValuesInAConfigurationFile) {
  EXPECT_TRUE(made({{"momentum", "0.8"}, {"nesterov", "on"}, {"lr-step-epochs", "10"}, {"randaugment-magnitude", "7"}},
                   "config.toml"));
  EXPECT_EQ(made({{"shard-degree", "2"}}, "config.toml").error().setting, "--shard-degree");
}

TEST(TrainConfig, TypesReachFsdp) {  // --param-dtype, --reduce-dtype
  EXPECT_EQ(fsdp("param-dtype", "bf16").sharding.parameter_type, at::kBFloat16);
  EXPECT_EQ(fsdp("param-dtype", "bf16").sharding.reduce_type, std::nullopt);
  EXPECT_EQ(fsdp("reduce-dtype", "fp16").sharding.reduce_type, at::kHalf);
  EXPECT_EQ(fsdp("reduce-dtype", "fp16").sharding.parameter_type, std::nullopt);
}

TEST(TrainerTable, TheShortHelpSaysWhatADefaultOfZeroMeans) {
  for (const char* const name : {"max-steps", "checkpoint-steps", "warmup-epochs"}) {
    const settings::Setting* const setting = settings::find_setting(trainer_table(), name);
    EXPECT_EQ(setting->default_text, "0") << name;
    EXPECT_LT(setting->help.find(" 0: "), setting->help.find(". ")) << name;  // it shows the first sentence
  }
}

TEST(TrainerTable, RetentionOptionsEqualThoseOfPrune) {
  const auto commands = checkpoint_tool::all_commands();
  const auto prune = std::ranges::find(commands, "prune", &checkpoint_tool::Command::name);
  for (const char* name : {"keep-last", "keep-best", "keep-every"}) {
    const settings::Setting* of_prune = settings::find_setting(prune->table, name);
    const settings::Setting* of_trainer = settings::find_setting(trainer_table(), name);
    EXPECT_EQ(of_prune->default_text, of_trainer->default_text) << name;
    EXPECT_EQ(of_prune->help, of_trainer->help) << name;
    EXPECT_EQ(of_prune->minimum, of_trainer->minimum) << name;
    EXPECT_EQ(of_prune->maximum, of_trainer->maximum) << name;
  }
}

}  // namespace
}  // namespace rollcall::config
