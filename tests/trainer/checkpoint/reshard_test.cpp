#include <gtest/gtest.h>

#include "tests/support/socket_group.h"
#include "tests/support/whole_checkpoint.h"
#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {
namespace {

using format::TemporaryFolder;
using testing_support::all_ended_well;
using testing_support::fork_ranks;

/// Odd rows, fewer rows than ranks, one element, a scalar, and a buffer.
struct OddNetImpl : torch::nn::Module {
  OddNetImpl() {
    wide = register_parameter("wide", torch::zeros({7, 3, 2, 2}));
    few = register_parameter("few", torch::zeros({2, 5}));
    one = register_parameter("one", torch::zeros({1}));
    scalar = register_parameter("scalar", torch::zeros({}));
    count = register_buffer("count", torch::zeros({3}, at::kLong));
  }
  at::Tensor wide, few, one, scalar, count;
};
TORCH_MODULE(OddNet);

/// The value that every element of a tensor has by its place: a function of (key, what, index).
at::Tensor expected(const at::Tensor& like, const std::string& key, double what) {
  const double first = what * 1000 + static_cast<double>(key.size()) * 100 + key[0];
  return torch::arange(like.numel(), at::kDouble).add(first).reshape(like.sizes()).to(like.scalar_type());
}

/// Rows of each parameter as FSDP cuts them.
class RowSharding final : public Sharding {
 public:
  RowSharding(const OddNet& net, std::int64_t rank, std::int64_t ranks) {
    const torch::NoGradGuard no_grad;
    for (const auto& entry : net->named_parameters()) {
      const at::Tensor whole = entry.value().dim() == 0 ? entry.value().reshape({1}) : entry.value();
      const std::int64_t chunk = (whole.size(0) + ranks - 1) / ranks;
      const std::int64_t begin = std::min(rank * chunk, whole.size(0));
      const at::Tensor rows = whole.narrow(0, begin, std::min(begin + chunk, whole.size(0)) - begin).clone();
      shards_.emplace(entry.key(), Shard{rows, entry.value().sizes().vec(), begin});
    }
  }
  [[nodiscard]] std::optional<Shard> shard(const std::string& key) const override {
    const auto found = shards_.find(key);
    return found == shards_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] bool writes() const override { return true; }

 private:
  std::map<std::string, Shard> shards_;
};

/// A rank's net and AdamW, sharded or whole; `filled` with the expected values, or with zeros.
struct Rank {
  Rank(const format::RankGroup& group, bool sharded, bool filled) {
    const torch::NoGradGuard no_grad;
    if (filled) {
      for (const auto& entry : net->named_parameters()) {
        entry.value().copy_(expected(entry.value(), entry.key(), 1));
      }
      net->count.copy_(expected(net->count, "count", 1));
    }
    if (sharded) {
      sharding = std::make_unique<RowSharding>(net, group.rank(), group.size());
    }
    std::vector<at::Tensor> leaves;
    for (const auto& entry : net->named_parameters()) {
      keys.push_back(entry.key());
      leaves.push_back(part(entry.key()));
    }
    optimizer = std::make_unique<torch::optim::AdamW>(leaves);
    for (std::size_t i = 0; filled && i < leaves.size(); ++i) {
      auto state = std::make_unique<torch::optim::AdamWParamState>();
      state->step(9);
      state->exp_avg(rows_of(expected(whole(keys[i]), keys[i], 2), keys[i]));
      state->exp_avg_sq(rows_of(expected(whole(keys[i]), keys[i], 3), keys[i]));
      optimizer->state()[leaves[i].unsafeGetTensorImpl()] = std::move(state);
    }
  }

  [[nodiscard]] at::Tensor whole(const std::string& key) const { return net->named_parameters()[key]; }
  [[nodiscard]] at::Tensor part(const std::string& key) const {
    return sharding ? sharding->shard(key)->rows : whole(key);
  }
  /// This rank's rows of a tensor of the whole parameter's shape.
  [[nodiscard]] at::Tensor rows_of(const at::Tensor& tensor, const std::string& key) const {
    if (!sharding) {
      return tensor;
    }
    const auto shard = sharding->shard(key);
    return (tensor.dim() == 0 ? tensor.reshape({1}) : tensor).narrow(0, shard->first_row, shard->rows.size(0)).clone();
  }
  [[nodiscard]] TrainingState state() {
    return {.model = *net,
            .optimizer = *optimizer,
            .parameter_keys_in_optimizer_order = keys,
            .progress = {.global_step = 9},
            .rng_per_rank = {std::vector<std::byte>(16, std::byte{5})},
            .config_json = "{}",
            .argv = {},
            .sharding = sharding.get()};
  }
  [[nodiscard]] bool has_expected_values() const {
    bool all = torch::equal(net->count, expected(net->count, "count", 1));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::string& key = keys[i];
      const at::Tensor& leaf = optimizer->param_groups()[0].params()[i];
      const auto& moments =
          dynamic_cast<const torch::optim::AdamWParamState&>(*optimizer->state().at(leaf.unsafeGetTensorImpl()));
      all = all && torch::equal(part(key), rows_of(expected(whole(key), key, 1), key)) && moments.step() == 9 &&
            torch::equal(moments.exp_avg(), rows_of(expected(whole(key), key, 2), key)) &&
            torch::equal(moments.exp_avg_sq(), rows_of(expected(whole(key), key, 3), key));
    }
    return all;
  }

  OddNet net;
  std::unique_ptr<RowSharding> sharding;
  std::vector<std::string> keys;
  std::unique_ptr<torch::optim::AdamW> optimizer;
};

int load_and_compare(format::RankGroup& group, const std::string& folder, bool sharded) {
  Rank rank(group, sharded, false);
  TrainingState state = rank.state();
  const auto loaded = load({.resume = "auto", .folder = folder}, state, group);
  return loaded && loaded->has_value() && rank.has_expected_values() ? 0 : 1;
}

TEST(CheckpointReshard, LoadsForAnyNumberOfRanksWhatAnyOtherNumberSaved) {
  for (const bool writers_shard : {false, true}) {
    for (const std::uint32_t writers : {1U, 2U, 3U, 8U}) {
      const TemporaryFolder folder;
      ASSERT_TRUE(all_ended_well(fork_ranks(writers,
                                            [&](format::RankGroup& group) {
                                              Rank rank(group, writers_shard, true);
                                              return save(folder.path(), rank.state(), {}, group) ? 0 : 1;
                                            })))
          << writers_shard << writers;
      for (const bool readers_shard : {false, true}) {
        for (const std::uint32_t readers : {1U, 3U, 4U}) {
          EXPECT_TRUE(all_ended_well(fork_ranks(
              readers,
              [&](format::RankGroup& group) { return load_and_compare(group, folder.path(), readers_shard); })))
              << writers_shard << writers << readers_shard << readers;
        }
      }
    }
  }
}

TEST(CheckpointReshard, AllRanksFallBackWhenOneReadsDamagedRows) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {9, 10}) {
    ASSERT_TRUE(all_ended_well(fork_ranks(2, [&](format::RankGroup& group) {
      Rank rank(group, true, true);
      TrainingState state = rank.state();
      state.progress.global_step = step;
      return save(folder.path(), state, {}, group) ? 0 : 1;
    })));
  }
  const std::string newest = folder.file("step-00000010.h5");
  std::vector<char> bytes = format::file_bytes(newest);
  const auto reader = format::CheckpointReader::open(newest);
  ASSERT_TRUE(reader);
  bytes[reader->find("/model/scalar")->offset] ^= 1;  // only rank 0 has this tensor
  format::write_file(newest, bytes);
  EXPECT_TRUE(all_ended_well(
      fork_ranks(3, [&](format::RankGroup& group) { return load_and_compare(group, folder.path(), true); })));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"step-00000009.h5", "step-00000010.h5.damaged"}));
}

}  // namespace
}  // namespace rollcall::checkpoint
