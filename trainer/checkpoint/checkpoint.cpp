#include "trainer/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <cstring>
#include <exception>
#include <filesystem>

#include "trainer/checkpoint/content_builder.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/writer.h"
#include "trainer/checkpoint/model_state.h"
#include "trainer/checkpoint/optimizer_state.h"
#include "trainer/checkpoint/stored_content.h"

namespace rollcall::checkpoint {
namespace {

std::string rng_path(std::size_t rank) { return fmt::format("/rng/rank_{:04}/cpu", rank); }

void add_rng(format::Content& content, const std::vector<std::vector<std::byte>>& rng_per_rank) {
  for (std::size_t rank = 0; rank < rng_per_rank.size(); ++rank) {
    const auto& bytes = rng_per_rank[rank];
    content.tensors.push_back(
        {rng_path(rank), "", format::DType::UInt8, {static_cast<std::int64_t>(bytes.size())}, bytes});
  }
}

std::vector<std::vector<std::byte>> read_rng(const StoredContent& stored) {
  std::vector<std::vector<std::byte>> rng_per_rank;
  while (const format::TensorView* const state = stored.tensor(rng_path(rng_per_rank.size()))) {
    rng_per_rank.emplace_back(state->bytes.begin(), state->bytes.end());
  }
  return rng_per_rank;
}

/// What ranks may have to do together.
Result<void> collect(const TrainingState& state, ContentBuilder& builder) {
  add_model(builder, state.model, state.sharding);
  return add_optimizer(builder, state.optimizer, state.parameter_keys_in_optimizer_order, state.sharding);
}

Result<void> save_state(const std::string& folder, const TrainingState& state, const Retention& retention) {
  ContentBuilder builder;
  if (auto collected = collect(state, builder); !collected) {  // first: nobody is to wait for one whose disk is full
    return collected;
  }
  if (auto prepared = format::prepare_folder(folder); !prepared) {
    return prepared;
  }
  format::remove_stale_temporaries(folder);
  add_progress(builder.content, state.progress);
  add_rng(builder.content, state.rng_per_rank);
  builder.content.values["/config/json"] = state.config_json;
  builder.content.values["/config/argv"] = state.argv;
  const std::string path =
      (std::filesystem::path(folder) / format::checkpoint_name(state.progress.global_step)).string();
  const format::WriterOptions options{.writer = "rollcall-train", .torch_version = TORCH_VERSION};
  if (auto written = format::write_checkpoint(path, builder.content, options); !written) {
    return written;
  }
  format::tidy_folder(folder, state.progress.global_step, state.progress.best_step, retention);
  return {};
}

/// Checks everything, then fills `state`.
Result<void> apply(const format::Content& content, const std::string& path, TrainingState& state) {
  const StoredContent stored(content);
  const auto model = plan_model(state.model, state.sharding, stored, path);
  if (!model) {
    return model.error();
  }
  auto optimizer =
      plan_optimizer(state.optimizer, state.parameter_keys_in_optimizer_order, state.sharding, stored, path);
  if (!optimizer) {
    return optimizer.error();
  }
  const auto progress = read_progress(stored);
  if (!progress) {
    return fail("--resume", path, "does not tell how far the training was", "another checkpoint", ExitCode::BadData);
  }
  model->carry_out();
  optimizer->carry_out(state.optimizer);
  state.progress = *progress;
  state.rng_per_rank = read_rng(stored);
  return {};
}

Result<std::optional<format::UsableCheckpoint>> find(const std::string& resume, const std::string& folder) {
  if (resume == "never") {
    return std::optional<format::UsableCheckpoint>();
  }
  if (resume == "auto") {
    return format::find_latest_usable(folder);
  }
  auto loaded = format::read_checkpoint(resume);
  if (!loaded) {
    Error error = loaded.error();
    error.setting = "--resume";
    return error;
  }
  return std::optional(format::UsableCheckpoint{resume, std::move(*loaded), {}});
}

Result<std::optional<LoadedInfo>> load_state(const std::string& resume, const std::string& folder,
                                             TrainingState& state) {
  auto found = find(resume, folder);
  if (!found) {
    return found.error();
  }
  if (!found->has_value()) {
    return std::optional<LoadedInfo>();
  }
  format::UsableCheckpoint& checkpoint = **found;
  if (auto applied = apply(checkpoint.loaded.content, checkpoint.path, state); !applied) {
    return applied.error();
  }
  return std::optional(LoadedInfo{checkpoint.path, std::move(checkpoint.warnings)});
}

Error unexpected(const std::string& value, const std::exception& error) {
  const std::string text = error.what();
  return fail("checkpoint", value, text.substr(0, text.find('\n')), "reporting this", ExitCode::Internal);
}

}  // namespace

Result<void> save(const std::string& folder, const TrainingState& state, const Retention& retention) {
  try {
    return save_state(folder, state, retention);
  } catch (const std::exception& error) {
    return unexpected(folder, error);
  }
}

Result<void> take_part_in_saving(const TrainingState& state) {
  try {
    ContentBuilder nothing;
    return collect(state, nothing);
  } catch (const std::exception& error) {
    return unexpected("", error);
  }
}

Result<std::optional<LoadedInfo>> load(const std::string& resume, const std::string& folder, TrainingState& state) {
  try {
    return load_state(resume, folder, state);
  } catch (const std::exception& error) {
    return unexpected(resume == "auto" ? folder : resume, error);
  }
}

}  // namespace rollcall::checkpoint
