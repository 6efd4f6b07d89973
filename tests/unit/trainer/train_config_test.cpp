#include "trainer/config/train_config.h"

#include <gtest/gtest.h>

#include <string>

#include "trainer/config/options.h"

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

TEST(TrainConfig, AnExactTrainingSkipsDamagedPicturesAlone) {
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

TEST(TrainConfig, ReplicasAreOfElasticShardedTrainings) {  // --replicate-to, --replicate-steps
  const auto made = [](const std::vector<std::pair<std::string, std::string>>& given) {
    settings::Settings settings(trainer_table());
    for (const auto& [name, value] : given) {
      EXPECT_TRUE(settings.set(name, value, "the test"));
    }
    return make_parallel_config(settings);
  };
  const std::pair<std::string, std::string> fsdp{"parallel", "fsdp"};
  const std::pair<std::string, std::string> elastic{"elastic", "on"};
  const std::pair<std::string, std::string> replicate{"replicate-to", "neighbour"};
  EXPECT_EQ(made({fsdp, elastic})->replicate_steps, 0);
  EXPECT_EQ(made({fsdp, elastic, replicate})->replicate_steps, 10);
  EXPECT_EQ(made({fsdp, elastic, replicate, {"replicate-steps", "3"}})->replicate_steps, 3);
  EXPECT_EQ(made({fsdp, replicate}).error().setting, "--replicate-to");
  EXPECT_EQ(made({elastic, replicate}).error().setting, "--replicate-to");
  EXPECT_EQ(made({fsdp, elastic, {"replicate-steps", "3"}}).error().setting, "--replicate-steps");
}

TEST(TrainConfig, TypesReachFsdp) {  // --param-dtype, --reduce-dtype
  EXPECT_EQ(fsdp("param-dtype", "bf16").sharding.parameter_type, at::kBFloat16);
  EXPECT_EQ(fsdp("param-dtype", "bf16").sharding.reduce_type, std::nullopt);
  EXPECT_EQ(fsdp("reduce-dtype", "fp16").sharding.reduce_type, at::kHalf);
  EXPECT_EQ(fsdp("reduce-dtype", "fp16").sharding.parameter_type, std::nullopt);
}

}  // namespace
}  // namespace rollcall::config
