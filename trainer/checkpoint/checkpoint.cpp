#include "trainer/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/init_plan.h"
#include "trainer/checkpoint/interop/state_dict.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/model/state.h"
#include "trainer/storage/crc.h"

namespace rollcall::checkpoint {
namespace {

constexpr const char* kClassNames = "/config/class_names";

/// Runs `work`; what LibTorch throws becomes an Error (Internal) about `value` of `setting`.
template <typename Work>
auto without_exceptions(const std::string& value, const Work& work, const char* setting = "checkpoint")
    -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return fail(setting, value, text.substr(0, text.find('\n')), "reporting this", ErrorKind::Internal);
  }
}

/// A checkpoint that was read but is not in use yet.
struct Loaded {
  ReadPlan reads;
  OptimizerPlan optimizer;
  bool has_average = true;
  Progress progress;
  std::vector<std::vector<std::byte>> rng_per_rank;
};

/// Checks everything, then reads it.
Result<Loaded> read_all(const format::CheckpointSource& source, const TrainingState& state, format::VerifyLevel level) {
  ASSIGN_OR_RETURN(auto values, source.values());
  const OpenCheckpoint stored(source, std::move(values));
  Loaded loaded;
  RETURN_IF_ERROR(plan_model(loaded.reads, state.model, state.sharding, stored));
  ASSIGN_OR_RETURN(auto optimizer, plan_optimizer(loaded.reads, state.optimizer,
                                                  state.parameter_keys_in_optimizer_order, state.sharding, stored));
  loaded.optimizer = std::move(optimizer);
  if (state.average != nullptr) {
    ASSIGN_OR_RETURN(loaded.has_average,
                     plan_average(loaded.reads, *state.average, state.model, state.sharding, stored));
  }
  ASSIGN_OR_RETURN(loaded.progress, read_progress(stored));
  ASSIGN_OR_RETURN(auto rng, read_rng(stored, level));
  loaded.rng_per_rank = std::move(rng);
  RETURN_IF_ERROR(loaded.reads.read(source, level));
  return loaded;
}

/// Changes the training's own state for the first time.
void apply(Loaded loaded, TrainingState& state) {
  loaded.reads.apply();
  loaded.optimizer.apply(state.optimizer);
  state.lacks_average = !loaded.has_average;
  state.progress = std::move(loaded.progress);
  state.rng_per_rank = std::move(loaded.rng_per_rank);
}

/// Returns a digest that distinguishes a file from any other of that name: its creation time, if known, and the
/// checksums of its content.
std::uint32_t digest_of(const format::CheckpointSource& source) {
  const auto* const file = dynamic_cast<const format::CheckpointReader*>(&source);
  std::uint32_t digest = file == nullptr ? 0 : storage::crc32c(std::as_bytes(std::span(file->info().created)));
  for (const format::ManifestEntry& entry : source.datasets()) {
    digest = storage::crc32c(std::as_bytes(std::span(entry.name)), digest);
    digest = storage::crc32c(std::as_bytes(std::span(&entry.crc32c, 1)), digest);
  }
  return digest;
}

/// Checks that all ranks opened the same file. Nodes may have different files under one name, and someone may move a
/// link between the reads of two ranks; replicas that start differently would diverge. The same outcome on all ranks.
Result<void> check_same_file(format::RankGroup& group, std::uint32_t digest, const std::string& path) {
  ASSIGN_OR_RETURN(const auto digests, group.gather(std::as_bytes(std::span(&digest, 1))));
  const auto other = std::ranges::find_if(digests, [&](const auto& one) { return one != digests.front(); });
  if (group.rank() != 0 || other == digests.end()) {
    return format::agree(group, {});
  }
  return format::agree(
      group, fail("--resume", path,
                  fmt::format("rank {} opened a different file than rank 0 under this name", other - digests.begin()),
                  "naming a file on a shared file system that no other program replaces", ErrorKind::Mismatch));
}

/// Uses the named checkpoint, and no other.
Result<std::optional<format::UsedCheckpoint>> use_named(const std::string& path, format::RankGroup& group,
                                                        const format::UseCheckpoint& use) {
  const auto reader = open_named(path);
  const Result<void> outcome = reader ? use(*reader) : reader.error();
  if (Result<void> used = format::agree(group, outcome); !used) {
    Error error = used.error();
    error.setting = "--resume";
    return error;
  }
  return std::optional(format::UsedCheckpoint{path, {}});
}

Result<std::optional<LoadedInfo>> load_state(const LoadOptions& options, TrainingState& state,
                                             format::RankGroup& group) {
  if (options.resume == "never") {
    return std::optional<LoadedInfo>();
  }
  std::optional<Loaded> loaded;
  std::uint32_t digest = 0;
  const format::UseCheckpoint use = [&](const format::CheckpointReader& reader) -> Result<void> {
    return without_exceptions(reader.path(), [&]() -> Result<void> {
      RETURN_IF_ERROR(group.rank() == 0 ? reader.verify(format::VerifyLevel::Metadata, 1) : Result<void>());
      ASSIGN_OR_RETURN(auto read, read_all(reader, state, options.verify));
      loaded = std::move(read);
      digest = digest_of(reader);
      return {};
    });
  };
  ASSIGN_OR_RETURN(auto used, options.resume == "auto"
                                  ? format::use_latest(options.folder, group, use, options.passes_over_others)
                                  : use_named(options.resume, group, use));
  if (!used.has_value()) {
    return std::optional<LoadedInfo>();
  }
  RETURN_IF_ERROR(check_same_file(group, digest, used->path));
  apply(*std::move(loaded), state);
  return std::optional(LoadedInfo{used->path, std::move(used->warnings)});
}

/// Opens a checkpoint, or a state dict of another program.
Result<interop::Weights> open_weights(const std::string& path) {
  if (interop::is_state_dict(path) || interop::several_files(path)) {  // reading several files fails with advice
    return interop::open_state_dict(path);
  }
  auto reader = format::CheckpointReader::open(path);
  return reader ? Result(interop::Weights{std::make_unique<format::CheckpointReader>(*std::move(reader)), ""})
                : reader.error();
}

Result<InitInfo> init(const std::string& path, const torch::nn::Module& model, const Sharding* sharding,
                      format::VerifyLevel level, format::RankGroup& group) {
  InitPlan plan;
  std::uint32_t digest = 0;
  const auto read = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const auto weights, open_weights(path));
    const format::CheckpointSource& source = *weights.source;
    ASSIGN_OR_RETURN(auto planned, plan_init(source, model, sharding));
    plan = std::move(planned);
    if (!weights.taken.empty()) {
      plan.info.changes.push_back(weights.taken);
    }
    digest = digest_of(source);
    return plan.reads.read(source, level);
  };
  Result<void> agreed = format::agree(group, read());
  agreed = agreed ? check_same_file(group, digest, path) : agreed;
  if (!agreed) {
    Error error = agreed.error();
    error.setting = "--init-from";
    return error;
  }
  plan.reads.apply();
  return std::move(plan.info);
}

}  // namespace

std::vector<std::string> parameter_keys(const torch::OrderedDict<std::string, at::Tensor>& named,
                                        const torch::optim::Optimizer& optimizer) {
  std::map<const void*, std::string> key_of;
  for (const auto& parameter : named) {
    key_of[parameter.value().unsafeGetTensorImpl()] = parameter.key();
  }
  std::vector<std::string> keys;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto found = key_of.find(parameter.unsafeGetTensorImpl());
      keys.push_back(found == key_of.end() ? "" : found->second);
    }
  }
  return keys;
}

Result<StateParts> collect(const TrainingState& state, std::uint32_t rank, std::uint32_t size) {
  return without_exceptions("", [&]() -> Result<StateParts> {
    StateParts parts;
    add_model(parts, state.model, state.sharding);
    RETURN_IF_ERROR(add_optimizer(parts, state.optimizer, state.parameter_keys_in_optimizer_order, state.sharding));
    if (state.average != nullptr) {
      add_average(parts, *state.average, state.sharding);
    }
    parts.share(rank, size);
    if (rank == 0) {
      add_progress(parts.values, state.progress);
      add_rng(parts, state.rng_per_rank);
      parts.values["/config/json"] = state.config_json;
      parts.values["/config/argv"] = state.argv;
      parts.values["/config/slurm_job"] = state.job;
      if (!state.class_names.empty()) {
        parts.values[kClassNames] = state.class_names;
      }
    }
    return parts;
  });
}

Result<format::CheckpointReader> open_named(const std::string& path) {
  Result<format::CheckpointReader> reader = format::CheckpointReader::open(path);
  if (reader) {
    return reader;
  }
  if (interop::is_state_dict(path)) {
    return fail("--resume", path, "holds the weights of a model only, not the state of a training",
                "--init-from=FILE to start from them", ErrorKind::BadData);
  }
  Error error = reader.error();
  error.setting = "--resume";
  return error;
}

Result<std::optional<LoadedInfo>> load(const LoadOptions& options, TrainingState& state, format::RankGroup& group) {
  return without_exceptions(options.resume == "auto" ? options.folder : options.resume,
                            [&] { return load_state(options, state, group); });
}

Result<void> load(const MemoryCheckpoint& checkpoint, const std::function<Result<void>()>& fetch, TrainingState& state,
                  format::RankGroup& group) {
  auto planned =
      without_exceptions(checkpoint.path(), [&] { return read_all(checkpoint, state, format::VerifyLevel::Metadata); });
  RETURN_IF_ERROR(format::agree(group, planned ? Result<void>() : planned.error()));
  RETURN_IF_ERROR(format::agree(group, without_exceptions(checkpoint.path(), fetch)));
  apply(*std::move(planned), state);
  return {};
}

Result<InitInfo> init_from(const std::string& path, const torch::nn::Module& model, const Sharding* sharding,
                           format::VerifyLevel level, format::RankGroup& group) {
  return without_exceptions(
      path, [&] { return init(path, model, sharding, level, group); }, "--init-from");
}

Result<StoredModel> read_stored_model(const std::string& path) {
  return without_exceptions(path, [&]() -> Result<StoredModel> {
    ASSIGN_OR_RETURN(const interop::Weights weights, open_weights(path));
    ASSIGN_OR_RETURN(auto values, weights.source->values());
    const OpenCheckpoint stored(*weights.source, std::move(values));
    const auto* const settings = stored.value<std::string>("/config/json");
    const auto* const names = stored.value<std::vector<std::string>>(kClassNames);
    StoredModel model;
    std::int64_t weights_of_classes = 0;
    for (const format::ManifestEntry& entry : weights.source->datasets()) {
      const auto is_last = [&entry](const std::string& name) {
        return entry.state_dict_key == name || entry.state_dict_key.ends_with("." + name);
      };
      model.classes = is_last("fc.bias") && entry.shape.size() == 1 ? entry.shape.front() : model.classes;
      weights_of_classes = is_last("fc.weight") && entry.shape.size() == 2 ? entry.shape.front() : weights_of_classes;
    }
    if (model.classes < 1 || weights_of_classes != model.classes) {  // of a script: it tells how many it has
      model.classes = names == nullptr ? 0 : static_cast<std::int64_t>(names->size());
    }
    if (model.classes < 1) {
      return fail("checkpoint", path, "is of another model: it has no last layer fc, as each ResNet has",
                  "using the weights of a ResNet", ErrorKind::Mismatch);
    }
    model.config_json = settings == nullptr ? "" : *settings;
    model.class_names = names == nullptr ? std::vector<std::string>() : *names;
    return model;
  });
}

}  // namespace rollcall::checkpoint
