#include "trainer/train/inference/stored_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/model/batch_norm.h"
#include "trainer/model/state.h"
#include "trainer/train/checkpoints/checkpoint_writer.h"
#include "trainer/train/object_collectives.h"

namespace rollcall::train {
namespace {

/// Whether the classes have no names of their own, but only their numbers.
bool are_numbers(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != std::to_string(i)) {
      return false;
    }
  }
  return true;
}

Error about(Error error, const std::string& setting) {
  error.setting = setting;
  return error;
}

}  // namespace

Result<checkpoint::StoredModel> read_stored_model(const std::string& path, const std::string& setting,
                                                  const JobContext& context) {
  const Result<checkpoint::StoredModel> read =
      context.rank == 0 ? checkpoint::read_stored_model(path) : Result(checkpoint::StoredModel());
  RETURN_IF_ERROR(process_group::agree_or_fail(context.process_group,
                                               read ? Result<void>() : Result<void>(about(read.error(), setting))));
  std::string mine;
  nlohmann::json::to_cbor(nlohmann::json{read->config_json, read->class_names, read->classes}, mine);
  ASSIGN_OR_RETURN(const std::string of_zero, broadcast_text(0, context.process_group, mine));
  const nlohmann::json json = nlohmann::json::from_cbor(of_zero);
  return checkpoint::StoredModel{json.at(0).get<std::string>(), json.at(1).get<std::vector<std::string>>(),
                                 json.at(2).get<std::int64_t>()};
}

Result<model::Model> load_stored_model(const std::string& path, const std::string& setting,
                                       const checkpoint::StoredModel& stored, const config::TrainConfig& config,
                                       const JobContext& context) {
  if (config.model.num_classes != 0 && config.model.num_classes != stored.classes) {
    return fail("--num-classes", std::to_string(config.model.num_classes),
                fmt::format("the model in {} has {}", path, counted(stored.classes, "class", "classes")),
                "leaving it out", ErrorKind::Mismatch);
  }
  ASSIGN_OR_RETURN(model::Model model, make_model(config, stored.classes));
  context.device.place(*model);
  if (config.model.memory_format == at::MemoryFormat::ChannelsLast) {
    model::use_channels_last(*model);
  }
  CheckpointWriter ranks(config.checkpoint, context);
  ASSIGN_OR_RETURN(auto* const group, ranks.group());
  const auto loaded = checkpoint::init_from(path, *model, nullptr, config.checkpoint.load.verify, *group);
  if (!loaded) {
    return about(loaded.error(), setting);
  }
  model::use_kernels(*model, context.device.kernels(), context.device.kernel_parts());
  model->eval();
  return model;
}

std::vector<std::string> names_of_outputs(const checkpoint::StoredModel& stored,
                                          const std::vector<std::string>& of_data) {
  const bool is_named = !stored.class_names.empty() && !are_numbers(stored.class_names);
  std::vector<std::string> names = is_named ? stored.class_names : of_data;
  for (auto label = static_cast<std::int64_t>(names.size()); label < stored.classes; ++label) {
    names.push_back(std::to_string(label));
  }
  names.resize(static_cast<std::size_t>(stored.classes));
  return names;
}

Result<std::vector<std::int64_t>> outputs_of_labels(const checkpoint::StoredModel& stored,
                                                    const std::vector<std::string>& of_data, const std::string& given) {
  const auto classes = static_cast<std::int64_t>(of_data.size());
  std::map<std::string_view, std::int64_t> output_of;
  for (std::size_t i = 0; i < stored.class_names.size(); ++i) {
    output_of.emplace(stored.class_names[i], static_cast<std::int64_t>(i));
  }
  const auto known = [&](const std::string& name) {
    const auto found = output_of.find(name);
    return found != output_of.end() && found->second < stored.classes;
  };
  const bool has_same_names = of_data == stored.class_names;  // perhaps with one name for two classes
  const bool by_name =
      !has_same_names && output_of.size() == stored.class_names.size() && std::ranges::all_of(of_data, known);
  const bool has_names = !stored.class_names.empty() && !are_numbers(stored.class_names) && !are_numbers(of_data);
  if (!has_same_names && !by_name && has_names) {
    const auto unknown = std::ranges::find_if_not(of_data, known);
    return fail("--data", given,
                unknown == of_data.end()
                    ? "has other classes than the model, whose names are not unique"
                    : fmt::format("has the class {}, which the model was not trained on", *unknown),
                "using data with the classes of its training", ErrorKind::Mismatch);
  }
  if (!by_name && classes > stored.classes) {
    return fail("--data", given,
                fmt::format("has {}, but the model has only {}", counted(classes, "class", "classes"), stored.classes),
                "using data with the classes of its training", ErrorKind::Mismatch);
  }
  std::vector<std::int64_t> outputs;
  for (std::int64_t label = 0; label < classes; ++label) {
    outputs.push_back(by_name ? output_of.at(of_data[static_cast<std::size_t>(label)]) : label);
  }
  return outputs;
}

}  // namespace rollcall::train
