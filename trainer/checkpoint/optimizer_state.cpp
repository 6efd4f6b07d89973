#include "trainer/checkpoint/training_state.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "trainer/checkpoint/format/text_limits.h"
#include "trainer/optim/optimizer_kind.h"

namespace rollcall::checkpoint {
namespace {

using optim::OptimizerKind;

constexpr const char* kType = "/optimizer/type";
constexpr const char* kGroups = "/optimizer/param_groups";

std::size_t parameter_count(const torch::optim::Optimizer& optimizer) {
  std::size_t count = 0;
  for (const auto& group : optimizer.param_groups()) {
    count += group.params().size();
  }
  return count;
}

/// Returns the kind of `optimizer` after checking that `keys` names its parameters.
Result<const OptimizerKind*> checked_kind(const torch::optim::Optimizer& optimizer,
                                          const std::vector<std::string>& keys) {
  const OptimizerKind* const kind = optim::kind_of(optimizer);
  if (kind == nullptr) {
    return fail("checkpoint", "", "the optimizer is of an unknown kind", "reporting this", ErrorKind::Internal);
  }
  if (keys.size() != parameter_count(optimizer)) {
    return fail("checkpoint", "", "not all parameters of the optimizer have names", "reporting this",
                ErrorKind::Internal);
  }
  return kind;
}

/// Returns the names of each group's parameters.
std::vector<std::vector<std::string>> keys_by_group(const torch::optim::Optimizer& optimizer,
                                                    const std::vector<std::string>& keys) {
  std::vector<std::vector<std::string>> groups;
  auto next = keys.begin();
  for (const auto& group : optimizer.param_groups()) {
    const auto end = next + static_cast<std::ptrdiff_t>(group.params().size());
    groups.emplace_back(next, end);
    next = end;
  }
  return groups;
}

Error another_optimizer(const std::string& path, const std::string& how) {
  return fail("--resume", path, "is of another optimizer: " + how,
              "setting --optimizer as in that training, or --resume=never", ErrorKind::Mismatch);
}

/// Returns the options of each group, those of the file's group with its first parameter: with other factors of the
/// learning rate the file has other groups of the same parameters.
Result<std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>> read_options(
    const OptimizerKind& kind, const std::vector<std::vector<std::string>>& groups, const std::string& text,
    const std::string& path) {
  const nlohmann::json json = parse_untrusted(text, format::limits_of(text)).value_or(nlohmann::json());
  if (!json.is_array()) {
    return fail("--resume", path, std::string(kGroups) + " cannot be read", "using another checkpoint",
                ErrorKind::BadData);
  }
  std::map<std::string, std::size_t> stored;  // by parameter: its group
  for (std::size_t i = 0; i < json.size(); ++i) {
    for (const auto& key : json[i].at("params")) {
      stored[key.get<std::string>()] = i;
    }
  }
  std::size_t parameters = 0;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  for (const std::vector<std::string>& group : groups) {
    const auto missing = std::ranges::find_if(group, [&](const std::string& key) { return !stored.contains(key); });
    if (missing != group.end()) {
      return another_optimizer(path, "the file does not have the parameter " + *missing);
    }
    options.push_back(kind.from_json(json[stored.at(group.front())]));
    parameters += group.size();
  }
  return parameters == stored.size()
             ? Result(std::move(options))
             : another_optimizer(path, "the file has " + std::to_string(stored.size()) + " parameters and this run " +
                                           std::to_string(parameters));
}

std::string state_path(const std::string& key, const std::string& name) {
  return "/optimizer/state/" + key + "/" + name;
}

// Save and load the state of one parameter: /optimizer/state/<key>/<name>, a tensor of the parameter's shape or a
// number. `key` is the parameter's name in the state dict; `sharding` is null if every rank has the whole parameter.
// All arguments outlive the results.

optim::StateSink sink_of(StateParts& parts, const std::string& key, const Sharding* sharding) {
  return {.tensor =
              [&parts, key, sharding](const std::string& name, const at::Tensor& tensor) {
                if (const auto shard = sharding != nullptr ? sharding->shard(key) : std::nullopt) {
                  parts.add(state_path(key, name), "", *shard, tensor, sharding->writes());
                } else {
                  parts.add(state_path(key, name), "", tensor);
                }
              },
          .number = [&parts, key](const std::string& name,
                                  std::int64_t number) { parts.values[state_path(key, name)] = number; }};
}

/// Returns tensors like `parameter`, which the optimizer updates (device, strides), that get the stored values when
/// `reads` is carried out. Throws c10::Error if the shape differs.
optim::StateSource source_of(const OpenCheckpoint& stored, ReadPlan& reads, const at::Tensor& parameter,
                             const std::string& key, const Sharding* sharding) {
  const auto tensor = [&stored, &reads, &parameter, key, sharding](const std::string& name) -> at::Tensor {
    const format::ManifestEntry* const entry = stored.tensor(state_path(key, name));
    if (entry == nullptr) {
      return {};
    }
    const auto shard = sharding != nullptr ? sharding->shard(key) : std::nullopt;
    const std::vector<std::int64_t> whole = shard ? shard->whole_shape : parameter.sizes().vec();
    TORCH_CHECK(entry->shape == whole, entry->name, " is ", format::shape_text(entry->shape), " in the file and ",
                format::shape_text(whole), " in this run");
    return reads.make(parameter, *entry, shard ? shard->first_row : 0);
  };
  const auto number = [&stored, key](const std::string& name) -> std::optional<std::int64_t> {
    const auto* const value = stored.value<std::int64_t>(state_path(key, name));
    return value != nullptr ? std::optional(*value) : std::nullopt;
  };
  return {.tensor = tensor, .number = number};
}

}  // namespace

Result<void> add_optimizer(StateParts& parts, const torch::optim::Optimizer& optimizer,
                           const std::vector<std::string>& keys, const Sharding* sharding) {
  ASSIGN_OR_RETURN(const auto kind, checked_kind(optimizer, keys));
  const auto groups = keys_by_group(optimizer, keys);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& group = optimizer.param_groups()[i];
    nlohmann::ordered_json options = kind->to_json(group.options());
    options["params"] = groups[i];
    json.push_back(std::move(options));
    for (std::size_t j = 0; j < groups[i].size(); ++j) {
      const auto found = optimizer.state().find(group.params()[j].unsafeGetTensorImpl());
      if (found != optimizer.state().end()) {
        kind->state.save(*found->second, sink_of(parts, groups[i][j], sharding));
      }
    }
  }
  parts.values[kType] = std::string(kind->python_name);
  parts.values[kGroups] = json.dump();
  return {};
}

void OptimizerPlan::apply(torch::optim::Optimizer& optimizer) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    optimizer.param_groups()[i].set_options(std::move(options[i]));
  }
  optimizer.state().clear();
  for (auto& [parameter, state] : states) {
    optimizer.state()[parameter] = std::move(state);
  }
}

Result<OptimizerPlan> plan_optimizer(ReadPlan& reads, const torch::optim::Optimizer& optimizer,
                                     const std::vector<std::string>& keys, const Sharding* sharding,
                                     const OpenCheckpoint& stored) {
  const std::string& path = stored.source().path();
  ASSIGN_OR_RETURN(const auto kind, checked_kind(optimizer, keys));
  const auto* const type = stored.value<std::string>(kType);
  const auto* const text = stored.value<std::string>(kGroups);
  if (type == nullptr || text == nullptr) {
    return fail("--resume", path, "holds no optimizer state", "using another checkpoint", ErrorKind::BadData);
  }
  if (*type != kind->python_name) {
    return another_optimizer(path, *type + " in the file and " + std::string(kind->python_name) + " in this run");
  }
  const auto groups = keys_by_group(optimizer, keys);
  OptimizerPlan plan;
  try {
    ASSIGN_OR_RETURN(auto options, read_options(*kind, groups, *text, path));
    plan.options = std::move(options);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (std::size_t j = 0; j < groups[i].size(); ++j) {
        const at::Tensor& parameter = optimizer.param_groups()[i].params()[j];
        if (auto state = kind->state.load(source_of(stored, reads, parameter, groups[i][j], sharding))) {
          plan.states.emplace_back(parameter.unsafeGetTensorImpl(), std::move(state));
        }
      }
    }
  } catch (const c10::ValueError& error) {
    return fail("--resume", path, std::string("is damaged: ") + error.what_without_backtrace(),
                "using another checkpoint", ErrorKind::BadData);
  } catch (const c10::Error& error) {
    return another_optimizer(path, error.what_without_backtrace());
  } catch (const nlohmann::json::exception& error) {
    return fail("--resume", path, std::string(kGroups) + " cannot be read: " + error.what(), "using another checkpoint",
                ErrorKind::BadData);
  }
  return plan;
}

}  // namespace rollcall::checkpoint
