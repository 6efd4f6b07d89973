#include <gtest/gtest.h>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <utility>
#include <vector>

#include "tests/support/multiproc.h"
#include "tests/support/read_checkpoint.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/config/options.h"
#include "trainer/train/checkpoints/checkpoints.h"

namespace rollcall::train {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

constexpr std::int64_t kStep = 7;
constexpr const char* kName = "step-00000007.h5";

template <typename T>
T must(Result<T> result) {
  return result ? *std::move(result) : throw std::runtime_error(result.error().message());
}
void must(const Result<void>& result) { result ? void() : throw std::runtime_error(result.error().message()); }

struct Kind {
  std::string name;
  std::uint32_t ranks;
  std::string parallel;
  std::string cpu_offload = "off";
  std::string optimizer = "adamw";
  std::string ema = "0";
};

config::TrainConfig config_of(const Kind& kind, const std::string& resume, const std::string& folder) {
  settings::Settings settings(config::trainer_table());
  for (const auto& [name, value] : std::map<std::string, std::string>{{"data", "fake"},
                                                                      {"model", "resnet18"},
                                                                      {"image-size", "32"},
                                                                      {"batch-size", "2"},
                                                                      {"optimizer", kind.optimizer},
                                                                      {"ema", kind.ema},
                                                                      {"parallel", kind.parallel},
                                                                      {"cpu-offload", kind.cpu_offload},
                                                                      {"checkpoint-dir", folder},
                                                                      {"resume", resume}}) {
    must(settings.set(name, value, "test"));
  }
  return must(config::make_train_config(settings, {}));
}

JobContext world_of(const Rank& rank) {
  JobContext context;
  context.rank = rank.rank;
  context.world_size = rank.world_size;
  context.store = context.group_store = c10::make_intrusive<c10d::FileStore>(rank.folder / "store", -1);
  context.process_group =
      must(process_group::make_process_group(context.store, rank.rank, rank.world_size, {})).process_group;
  return context;
}

/// What rollcall-train makes of its settings, but for the loop. Checkpoints go to `folder`.
struct Session {
  Session(const Rank& rank, const Kind& kind, const std::string& resume, const std::string& folder)
      : config(config_of(kind, resume, folder)),
        context(world_of(rank)),
        training(must(make_training(config, context))) {
    must(add_replica(training, config, context));
    must(add_optimizer(training, config, context));
    checkpoints = std::make_unique<Checkpoints>(config, training, context, nullptr, std::vector<std::string>(), "");
    progress = first_progress(config, training.data.datasets, context);
  }

  /// A step with synthetic gradients, so that all rows of parameters and moments differ.
  void step() {
    const torch::NoGradGuard no_grad;
    torch::manual_seed(100 + context.rank);
    for (const auto& entry : training.replica->named_parameters()) {
      entry.value().mutable_grad() = torch::randn_like(entry.value());
    }
    training.optimizer->step();
    if (training.average) {
      training.average->update(0.5);
    }
    for (at::Tensor& buffer : training.model->buffers()) {
      buffer.add_(3);
    }
    progress.global_step = kStep;
  }
  void save() { must(checkpoints->save(progress, Urgency::Final, false)); }

  config::TrainConfig config;
  JobContext context;
  Training training;
  std::unique_ptr<Checkpoints> checkpoints;
  checkpoint::Progress progress;
};

/// Bytes of all parameters, buffers, moments and steps.
std::map<std::string, std::string> state_in(const std::string& path) {
  const auto loaded = must(checkpoint::format::read_checkpoint(path));
  std::map<std::string, std::string> state;
  for (const auto& tensor : loaded.content.tensors) {
    if (tensor.path.starts_with("/model/") || tensor.path.starts_with("/optimizer/") ||
        tensor.path.starts_with("/ema/")) {
      state[tensor.path] = {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
    }
  }
  return state;
}

std::vector<std::string> differences(const std::map<std::string, std::string>& a,
                                     const std::map<std::string, std::string>& b) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second != bytes) {
      names.push_back(name);
    }
  }
  return names;
}

/// `saver` saves; each of `loaders` loads that checkpoint and saves its own state again.
void check_same_state(const Kind& saver, const std::vector<Kind>& loaders) {
  std::string pattern = std::filesystem::temp_directory_path() / "other-ranks-XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern.data());
  const auto saved = spawn(saver.ranks, [&](Rank& rank) {
    Session session(rank, saver, "never", folder / "saved");
    session.step();
    session.save();
  });
  ASSERT_TRUE(all_succeeded(saved)) << report(saved);
  const std::string file = folder / "saved" / kName;
  const auto state = state_in(file);
  EXPECT_GT(state.size(), 3 * 62U);  // ResNet-18 has 62 parameters
  for (const Kind& kind : loaders) {
    const auto loaded = spawn(kind.ranks, [&](Rank& rank) {
      Session session(rank, kind, file, folder / kind.name);
      std::vector<std::string> warnings;
      MULTIPROC_CHECK(must(session.checkpoints->load(session.progress, warnings)).starts_with("resumed"));
      MULTIPROC_CHECK(session.progress.global_step == kStep);
      session.save();
    });
    ASSERT_TRUE(all_succeeded(loaded)) << report(loaded);
    const auto again = state_in(folder / kind.name / kName);
    EXPECT_EQ(again.size(), state.size());
    EXPECT_EQ(differences(state, again), std::vector<std::string>()) << kind.name;
  }
  std::filesystem::remove_all(folder);
}

// Other numbers and kinds of ranks load what four FSDP ranks saved, and save the same state again.
TEST(CheckpointFromOtherRanks, RestoresEveryTensorBitForBit) {
  check_same_state({"saver", 4, "fsdp"},
                   {{"fsdp", 3, "fsdp"}, {"ddp", 2, "ddp"}, {"fsdp in main memory", 3, "fsdp", "on"}});
}

TEST(CheckpointFromOtherRanks, RestoresTheAverageAndMomentsOfLarsAndRmsProp) {
  for (const std::string optimizer : {"lars", "rmsprop"}) {
    check_same_state({"saver", 3, "fsdp", "off", optimizer, "0.9"},
                     {{"fsdp", 2, "fsdp", "on", optimizer, "0.9"}, {"ddp", 2, "ddp", "off", optimizer, "0.9"}});
  }
}

TEST(CheckpointFromOtherRanks, RestoresEveryTensorFromCpuOffloadedShards) {
  check_same_state({"saver", 3, "fsdp", "on"}, {{"fsdp", 2, "fsdp"}, {"ddp", 2, "ddp"}});
}

TEST(Replicas, AreDueAtOnceInANewWorldAndOverdueAfterTwoIntervals) {
  const auto ranks = spawn(1, [](Rank& rank) {
    const Kind kind{"fsdp", 1, "fsdp"};
    Session saver(rank, kind, "never", rank.folder / "saved");
    saver.step();
    saver.save();
    Session session(rank, kind, rank.folder / "saved" / kName, rank.folder / "other");
    session.config.parallel.replicate_steps = 10;
    PeerReplicas copies;
    session.checkpoints->use_replicas(copies, 1);
    std::vector<std::string> warnings;
    must(session.checkpoints->load(session.progress, warnings));
    MULTIPROC_CHECK(session.checkpoints->replica_due_after_step(kStep + 1));
    MULTIPROC_CHECK(!session.checkpoints->replica_overdue_after_step(kStep + 19));
    MULTIPROC_CHECK(session.checkpoints->replica_overdue_after_step(kStep + 20));
    MULTIPROC_CHECK(must(session.checkpoints->replicate(session.progress, false, true)));
    MULTIPROC_CHECK(!session.checkpoints->replica_due_after_step(kStep + 9));
    MULTIPROC_CHECK(session.checkpoints->replica_due_after_step(kStep + 10));
    MULTIPROC_CHECK(!session.checkpoints->replica_overdue_after_step(kStep + 19));
    MULTIPROC_CHECK(!must(session.checkpoints->replicate(session.progress, true, true)));
    session.checkpoints->writer().finish_save();
    MULTIPROC_CHECK(copies.parts().size() == 1);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::train
