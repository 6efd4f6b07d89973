#include "trainer/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <cstring>
#include <exception>

#include "trainer/checkpoint/background/commit.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/model_state.h"
#include "trainer/checkpoint/optimizer_state.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/stored_content.h"

namespace rollcall::checkpoint {
namespace {

std::string rng_path(std::size_t rank) { return fmt::format("/rng/rank_{:04}/cpu", rank); }

/// The bytes stay where they are.
void add_rng(StateParts& parts, const std::vector<std::vector<std::byte>>& rng_per_rank) {
  for (std::size_t rank = 0; rank < rng_per_rank.size(); ++rank) {
    const auto& bytes = rng_per_rank[rank];
    const auto size = static_cast<std::int64_t>(bytes.size());
    parts.tensors.push_back({rng_path(rank),
                             "",
                             {size},
                             at::kByte,
                             torch::from_blob(const_cast<std::byte*>(bytes.data()), {size}, at::kByte),
                             0});
  }
}

Result<std::vector<std::vector<std::byte>>> read_rng(const StoredContent& stored, format::VerifyLevel level) {
  std::vector<std::vector<std::byte>> rng_per_rank;
  std::vector<format::ReadRequest> requests;
  while (const format::ManifestEntry* const state = stored.tensor(rng_path(rng_per_rank.size()))) {
    auto& bytes = rng_per_rank.emplace_back(state->bytes);
    requests.push_back({state, 0, bytes});
  }
  if (Result<void> read = stored.reader().read(requests, level, 1); !read) {
    return read.error();
  }
  return rng_per_rank;
}

Error unexpected(const std::string& value, const std::exception& error) {
  const std::string text = error.what();
  return fail("checkpoint", value, text.substr(0, text.find('\n')), "reporting this", ExitCode::Internal);
}

/// Runs `work`; what LibTorch throws becomes an Error (Internal) about `value`.
template <typename Work>
auto without_exceptions(const std::string& value, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return unexpected(value, error);
  }
}

/// What a rank has to give, on the host.
Result<HostContent> content_of(const TrainingState& state, const format::RankGroup& group) {
  auto parts = collect(state, group.rank(), group.size());
  return parts ? Result(on_host(*parts)) : parts.error();
}

/// A checkpoint that was read, and is not in use yet.
struct Loaded {
  ReadPlan reads;
  OptimizerPlan optimizer;
  Progress progress;
  std::vector<std::vector<std::byte>> rng_per_rank;
};

/// Checks everything, then reads it.
Result<Loaded> read_all(const format::CheckpointReader& reader, const TrainingState& state, format::VerifyLevel level,
                        bool checks_metadata) {
  if (Result<void> sound = checks_metadata ? reader.verify(format::VerifyLevel::Metadata, 1) : Result<void>(); !sound) {
    return sound.error();
  }
  auto values = reader.values();
  if (!values) {
    return values.error();
  }
  const StoredContent stored(reader, *std::move(values));
  Loaded loaded;
  if (Result<void> model = plan_model(loaded.reads, state.model, state.sharding, stored); !model) {
    return model.error();
  }
  auto optimizer =
      plan_optimizer(loaded.reads, state.optimizer, state.parameter_keys_in_optimizer_order, state.sharding, stored);
  if (!optimizer) {
    return optimizer.error();
  }
  loaded.optimizer = *std::move(optimizer);
  const auto progress = read_progress(stored);
  if (!progress) {
    return fail("--resume", reader.path(), "does not tell how far the training was", "another checkpoint",
                ExitCode::BadData);
  }
  loaded.progress = *progress;
  auto rng = read_rng(stored, level);
  if (!rng) {
    return rng.error();
  }
  loaded.rng_per_rank = *std::move(rng);
  if (Result<void> read = loaded.reads.read(reader, level); !read) {
    return read.error();
  }
  return loaded;
}

/// The named checkpoint, or nothing else.
Result<std::optional<format::UsedCheckpoint>> use_named(const std::string& path, format::RankGroup& group,
                                                        const format::UseCheckpoint& use) {
  const auto reader = format::CheckpointReader::open(path);
  if (Result<void> used = format::agree(group, reader ? use(*reader) : reader.error()); !used) {
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
  const format::UseCheckpoint use = [&](const format::CheckpointReader& reader) -> Result<void> {
    return without_exceptions(reader.path(), [&]() -> Result<void> {
      auto read = read_all(reader, state, options.verify, group.rank() == 0);
      if (!read) {
        return read.error();
      }
      loaded = *std::move(read);
      return {};
    });
  };
  auto used =
      options.resume == "auto" ? format::use_latest(options.folder, group, use) : use_named(options.resume, group, use);
  if (!used) {
    return used.error();
  }
  if (!used->has_value()) {
    return std::optional<LoadedInfo>();
  }
  loaded->reads.carry_out();
  loaded->optimizer.carry_out(state.optimizer);
  state.progress = loaded->progress;
  state.rng_per_rank = std::move(loaded->rng_per_rank);
  return std::optional(LoadedInfo{(*used)->path, std::move((*used)->warnings)});
}

}  // namespace

Result<StateParts> collect(const TrainingState& state, std::uint32_t rank, std::uint32_t size) {
  return without_exceptions("", [&]() -> Result<StateParts> {
    StateParts parts;
    add_model(parts, state.model, state.sharding);
    if (auto added = add_optimizer(parts, state.optimizer, state.parameter_keys_in_optimizer_order, state.sharding);
        !added) {
      return added.error();
    }
    parts.share(rank, size);
    if (rank == 0) {
      add_progress(parts.values, state.progress);
      add_rng(parts, state.rng_per_rank);
      parts.values["/config/json"] = state.config_json;
      parts.values["/config/argv"] = state.argv;
    }
    return parts;
  });
}

void add_generator(StateParts& parts, std::uint32_t rank, std::uint32_t size) {
  const std::vector<std::byte> bytes = cpu_rng_state();
  const auto length = static_cast<std::int64_t>(bytes.size());
  const at::Tensor mine = torch::empty({length}, at::kByte);
  std::memcpy(mine.mutable_data_ptr(), bytes.data(), bytes.size());
  for (std::uint32_t each = 0; each < size; ++each) {
    parts.tensors.push_back({rng_path(each), "", {length}, at::kByte, each == rank ? mine : at::Tensor(), 0});
  }
}

Result<void> save(const std::string& folder, const TrainingState& state, const Retention& retention,
                  format::RankGroup& group) {
  const auto content = without_exceptions(folder, [&] { return content_of(state, group); });
  if (Result<void> ready = format::agree(group, content ? Result<void>() : content.error()); !ready) {
    return ready;
  }
  const background::Destination destination{folder, state.progress.global_step, state.progress.best_step, retention};
  return background::commit(destination, content->content, {.writer = "rollcall-train", .torch_version = TORCH_VERSION},
                            group);
}

Result<void> save(const std::string& folder, const TrainingState& state, const Retention& retention) {
  format::LoneRank alone;
  return save(folder, state, retention, alone);
}

Result<std::optional<LoadedInfo>> load(const LoadOptions& options, TrainingState& state, format::RankGroup& group) {
  return without_exceptions(options.resume == "auto" ? options.folder : options.resume,
                            [&] { return load_state(options, state, group); });
}

Result<std::optional<LoadedInfo>> load(const std::string& resume, const std::string& folder, TrainingState& state) {
  format::LoneRank alone;
  return load({.resume = resume, .folder = folder}, state, alone);
}

}  // namespace rollcall::checkpoint
