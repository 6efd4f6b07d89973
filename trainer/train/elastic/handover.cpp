#include "trainer/train/elastic/handover.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/optim/optimizer_kind.h"
#include "trainer/train/object_collectives.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

using Json = nlohmann::json;

/// Calls `each` with every parameter that `optimizer` updates, in its order.
void for_each_parameter(const torch::optim::Optimizer& optimizer, const std::function<void(const at::Tensor&)>& each) {
  for (const auto& group : optimizer.param_groups()) {
    std::ranges::for_each(group.params(), each);
  }
}

/// Returns for each parameter the names of its tensors and its numbers: {"tensors": ["exp_avg"], "numbers": {"step":
/// 7}}, or null if it has no state.
Json state_description(const torch::optim::Optimizer& optimizer) {
  const optim::OptimizerKind* const kind = optim::kind_of(optimizer);
  Json all = Json::array();
  for_each_parameter(optimizer, [&](const at::Tensor& parameter) {
    Json& of_parameter = all.emplace_back();
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (kind != nullptr && found != optimizer.state().end()) {
      of_parameter = {{"tensors", Json::array()}, {"numbers", Json::object()}};
      kind->state.save(
          *found->second,
          {.tensor = [&](const std::string& name, const at::Tensor&) { of_parameter["tensors"].push_back(name); },
           .number = [&](const std::string& name, std::int64_t number) { of_parameter["numbers"][name] = number; }});
    }
  });
  return all;
}

/// Returns the state `name` of `parameter` in `optimizer`; undefined if there is none.
at::Tensor state_tensor(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                        const std::string& name) {
  at::Tensor found;
  const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (state != optimizer.state().end()) {
    optim::kind_of(optimizer)->state.save(*state->second, {.tensor =
                                                               [&](const std::string& each, const at::Tensor& tensor) {
                                                                 if (each == name) {
                                                                   found = tensor;
                                                                 }
                                                               },
                                                           .number = [](const std::string&, std::int64_t) {}});
  }
  return found;
}

/// Gives `optimizer` the state that `description` names, from `old`'s tensors if it has them and else from new ones.
/// Appends all of them to `tensors`.
void make_state(torch::optim::Optimizer& optimizer, const Json& description, const torch::optim::Optimizer* old,
                std::vector<at::Tensor>& tensors) {
  const optim::OptimizerKind* const kind = optim::kind_of(optimizer);
  std::size_t next = 0;
  for_each_parameter(optimizer, [&](const at::Tensor& parameter) {
    const Json& of_parameter = description.at(next++);
    if (of_parameter.is_null()) {
      return;
    }
    const auto tensor = [&](const std::string& name) -> at::Tensor {
      const Json& names = of_parameter.at("tensors");
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        return {};
      }
      const at::Tensor kept = old != nullptr ? state_tensor(*old, parameter, name) : at::Tensor();
      return tensors.emplace_back(kept.defined() ? kept : torch::empty_like(parameter.detach()));
    };
    const auto number = [&](const std::string& name) -> std::optional<std::int64_t> {
      const Json& numbers = of_parameter.at("numbers");
      return numbers.contains(name) ? std::optional(numbers.at(name).get<std::int64_t>()) : std::nullopt;
    };
    if (auto state = kind->state.load({.tensor = tensor, .number = number})) {
      optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
  });
}

/// Gives `average` the values of `old`, if it is set.
void copy_average(const optim::WeightAverage& average, const std::optional<optim::WeightAverage>& old) {
  if (old) {
    parallel::copy_values(average.parameters().values(), old->parameters().values());
    parallel::copy_values(average.buffers().values(), old->buffers().values());
  }
}

Json describe(const InMemoryState& kept) {
  return {{"progress", checkpoint::progress_to_text(kept.progress)},
          {"config", kept.config_json},
          {"optimizer", state_description(*kept.optimizer)},
          {"line_begins_at", kept.last_own_step},
          {"gradient_order", kept.gradient_order},
          {"recovery", to_json(kept.recovery)}};
}

/// The progress of a rank.
struct Reached {
  std::int64_t generation = -1;  ///< generation in which it was last; -1: it has kept nothing
  std::int64_t steps = -1;       ///< steps that it has finished
  friend bool operator<(const Reached& one, const Reached& other) {
    return std::pair(one.generation, one.steps) < std::pair(other.generation, other.steps);
  }
};

/// Returns the progress of each rank, by rank.
Result<std::vector<Reached>> reached_by_ranks(const std::optional<InMemoryState>& kept, const JobContext& context) {
  const Reached mine = kept && kept->model ? Reached{kept->generation, kept->progress.global_step} : Reached();
  ASSIGN_OR_RETURN(const std::vector<Json> all, all_gather_json(context.process_group, {mine.generation, mine.steps}));
  std::vector<Reached> found;
  found.reserve(all.size());
  for (const Json& received : all) {
    found.push_back({received.at(0), received.at(1)});
  }
  return found;
}

/// Returns the state of the first of the ranks that finished the most steps in the newest generation. Ranks that were
/// cut off earlier do not count. Returns nothing if no rank has kept anything. Collective. Errors (Unavailable): a peer
/// was lost.
Result<std::optional<Handover>> find_handover(const std::optional<InMemoryState>& kept, const JobContext& context) {
  ASSIGN_OR_RETURN(const std::vector<Reached> of_ranks, reached_by_ranks(kept, context));
  const auto most = std::max_element(of_ranks.begin(), of_ranks.end());  // the first of them
  if (most->generation < 0) {
    return std::optional<Handover>();
  }
  Handover handover;
  handover.generation = most->generation;
  handover.source = static_cast<std::uint32_t>(most - of_ranks.begin());
  const auto first = std::ranges::find(of_ranks, most->generation, &Reached::generation);
  handover.source_of_buffers = static_cast<std::uint32_t>(first - of_ranks.begin());
  ASSIGN_OR_RETURN(const std::vector<Json> all,
                   all_gather_json(context.process_group, context.rank == handover.source ? describe(*kept) : Json()));
  const Json& received = all[handover.source];
  handover.earlier = {.path = fmt::format("the memory of rank {}", handover.source),
                      .progress = checkpoint::progress_of_text(received.at("progress").get<std::string>()),
                      .config_json = received.at("config").get<std::string>(),
                      .job = ""};
  handover.optimizer_state = received.at("optimizer").dump();
  handover.last_own_step = received.at("line_begins_at").get<std::int64_t>();
  handover.gradient_order = received.at("gradient_order").get<std::vector<std::int64_t>>();
  handover.recovery = recovery_of(received.at("recovery"));
  return std::optional(std::move(handover));
}

/// Returns the step of the newest checkpoint that this run wrote or resumed from, as find_resume_point() would find it;
/// 0: none is of a later step than `step`.
Result<std::int64_t> newest_own_step_after(std::int64_t step, const config::TrainConfig& config,
                                           const Environment& environment) {
  const auto listed = checkpoint::format::list_own_checkpoints(config.checkpoint.load.folder);
  if (listed && (listed->empty() || listed->front().step <= step)) {
    return 0;  // the usual case: finding their owner takes longer, the longer the run's records are
  }
  ASSIGN_OR_RETURN(const bool own, restarted_job_continues(config, environment));
  checkpoint::LoadOptions options = config.checkpoint.load;
  options.passes_over_others = true;
  options.resume = own ? "auto" : options.resume;
  ASSIGN_OR_RETURN(const auto found, find_earlier_training(options));
  return found ? found->progress.global_step : 0;
}

/// Returns whether rank 0 finds a checkpoint of a later step. Collective.
Result<bool> saved_since(std::int64_t step, const config::TrainConfig& config, const Environment& environment,
                         const JobContext& context) {
  const Result<std::int64_t> saved =
      context.rank == 0 ? newest_own_step_after(step, config, environment) : Result<std::int64_t>(0);
  const auto newest = broadcast_numbers(context.process_group, {saved ? *saved : 0});
  if (!saved || !newest) {
    return saved ? newest.error() : saved.error();
  }
  return newest->front() > step;
}

}  // namespace

nlohmann::json to_json(const Recovery& recovery) {
  return {{"cause", recovery.cause},
          {"since", seconds_now() - recovery.noticed},
          {"hold", recovery.hold},
          {"released", recovery.released},
          {"joined", recovery.joined}};
}

Recovery recovery_of(const nlohmann::json& json) {
  return {.cause = json.at("cause").get<std::string>(),
          .noticed = seconds_now() - json.at("since").get<double>(),
          .released = json.at("released").get<double>(),
          .hold = json.at("hold").get<double>(),
          .joined = json.at("joined").get<double>()};
}

Recovery FoundInMemory::recovery() const {
  return handover ? handover->recovery : copies ? copies->recovery : Recovery();
}

Result<std::optional<EarlierTraining>> FoundInMemory::earlier() const {
  if (handover) {
    return std::optional(handover->earlier);
  }
  if (!copies) {
    return std::optional<EarlierTraining>();
  }
  ASSIGN_OR_RETURN(EarlierTraining of_copies, earlier_training_of(copies->checkpoint));
  if (of_copies.progress.global_step != copies->name.step) {
    return fail("checkpoint", of_copies.path, "holds another step than its name says", "reporting this",
                ErrorKind::Internal);
  }
  return std::optional(std::move(of_copies));
}

Result<FoundInMemory> find_in_memory(std::optional<InMemoryState>& kept, const PeerReplicas& copies,
                                     const config::TrainConfig& config, const Environment& environment,
                                     const JobContext& context) {
  ASSIGN_OR_RETURN(std::optional<Handover> handover, find_handover(kept, context));
  Result<std::optional<FoundReplicas>> parts = std::optional<FoundReplicas>();
  if (!handover && config.parallel.replicate_steps > 0) {
    parts = find_replicas(copies, kept ? kept->recovery : Recovery(), context);
  }
  if (!parts || (!handover && !*parts)) {
    return parts ? Result<FoundInMemory>(FoundInMemory()) : parts.error();
  }
  // For the same step the file takes precedence over replicas: it is newer, with the epoch's end and its validation.
  const std::int64_t step = handover ? handover->earlier.progress.global_step : (*parts)->name.step - 1;
  ASSIGN_OR_RETURN(const bool newer, saved_since(step, config, environment, context));
  if (newer) {
    if (handover) {
      kept.reset();
    }
    return FoundInMemory();
  }
  return FoundInMemory{.handover = std::move(handover), .copies = *std::move(parts)};
}

Result<void> broadcast_state(const Handover& handover, std::optional<InMemoryState>& kept, Training& training,
                             const JobContext& context) {
  constexpr std::size_t kLongestPiece = std::size_t{256} << 20;
  const torch::NoGradGuard no_grad;
  // A rank that was in the step that another rank has finished already has the statistics of that step.
  const bool same_step = kept && kept->generation == handover.generation &&
                         kept->progress.global_step == handover.earlier.progress.global_step;
  if (same_step && !kept->buffers_before.empty()) {
    parallel::copy_values(statistics_of(*kept->model, kept->average), std::exchange(kept->buffers_before, {}));
  }
  std::vector<at::Tensor> state = training.model->parameters();
  make_state(*training.optimizer, Json::parse(handover.optimizer_state), kept ? kept->optimizer.get() : nullptr, state);
  if (training.average) {
    copy_average(*training.average, kept ? kept->average : std::nullopt);
    const std::vector<at::Tensor> averages = training.average->parameters().values();
    state.insert(state.end(), averages.begin(), averages.end());
  }
  std::vector<at::Tensor> buffers = statistics_of(*training.model, training.average);
  Result<void> filled;
  if (context.process_group) {
    filled = process_group::guard_collective(context.process_group, [&] {
      c10d::broadcast_coalesced(context.process_group, state, kLongestPiece, static_cast<int>(handover.source));
      c10d::broadcast_coalesced(context.process_group, buffers, kLongestPiece,
                                static_cast<int>(handover.source_of_buffers));
    });
  }
  if (filled || !same_step) {
    kept.reset();
  }
  return filled;
}

}  // namespace rollcall::train
