#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/program.h"
#include "trainer/tools/checkpoint/statistics.h"

namespace rollcall::checkpoint_tool {
namespace show_impl {
namespace {

using checkpoint::format::Value;
using Rows = std::vector<std::vector<std::string>>;

using command_line::Flag;

constexpr std::array kFlags{
    kHelp,
    kJson,
    Flag{"tensors", 0, "List all tensors with type, shape, size and checksum"},
};

constexpr std::string_view kText =
    R"help(Prints a summary of a checkpoint: the progress of the training, its settings, what wrote it and when, and the
numbers of its tensors. With names of tensors it prints their statistics (minimum, maximum, mean, standard deviation,
and the numbers of zeros, NaN and infinities). Every printed byte has been verified.

Examples:
  rollcall-checkpoint show checkpoints
  rollcall-checkpoint show --tensors checkpoints/best.h5
  rollcall-checkpoint show best.h5 fc.weight /optimizer/state/fc.weight/exp_avg_sq
)help";

Json value_json(const Value& value) {
  return std::visit([](const auto& content) { return Json(content); }, value);
}

std::string value_text(const Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) {
    return printable(*text);
  }
  if (const auto* const texts = std::get_if<std::vector<std::string>>(&value)) {
    std::string line;
    for (const std::string& text : *texts) {
      line += (line.empty() ? "" : " ") + printable(text);
    }
    return line;
  }
  return value_json(value).dump();
}

/// Lists the groups of tensors ("/model", "/optimizer" and so on) with numbers and sizes.
Rows group_rows(const CheckpointFile& file) {
  struct Sum {
    std::uint64_t tensors = 0;
    std::uint64_t elements = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const CheckpointTensor& tensor : file.tensors()) {
    Sum& sum = sums[tensor.path.substr(0, tensor.path.find('/', 1))];
    sum.tensors += 1;
    sum.elements += tensor.elements();
    sum.bytes += tensor.bytes;
  }
  Rows rows{{"GROUP", "TENSORS", "ELEMENTS", "SIZE"}};
  for (const auto& [name, sum] : sums) {
    rows.push_back({name, std::to_string(sum.tensors), std::to_string(sum.elements), metrics::human_bytes(sum.bytes)});
  }
  return rows;
}

/// Returns the progress of the training; empty if the file has none.
std::string progress_text(const CheckpointFile& file) {
  const auto step = file.value<std::int64_t>("/progress/global_step");
  const auto epoch = file.value<std::int64_t>("/progress/epoch");
  std::string text = step ? fmt::format("step {}", *step) : "";
  if (epoch) {
    text += (text.empty() ? "" : ", ") + counted(*epoch, "epoch") + " done";
    const auto in_epoch = file.value<std::int64_t>("/progress/step_in_epoch");
    text += in_epoch && *in_epoch > 0 ? " and " + counted(*in_epoch, "step") + " of the next" : "";
  }
  return text;
}

std::string best_text(const CheckpointFile& file) {
  const auto step = file.value<std::int64_t>("/progress/best_step");
  const auto metric = file.value<double>("/progress/best_metric");
  const Json::json_pointer loss("/loss/value");
  const Json settings = Json::parse(file.value<std::string>("/config/json").value_or(""), nullptr, false);
  const char* const name = settings.contains(loss) && settings[loss] == "multi-label" ? "mAP" : "top-1";
  return step && *step >= 0 && metric ? fmt::format("validation {} {:.2f} % after step {}", name, 100 * *metric, *step)
                                      : "";
}

/// Returns "lr=0.1 model=resnet50": the settings that were given, and always the model and the data.
std::string settings_text(const CheckpointFile& file) {
  const auto text = file.value<std::string>("/config/json");
  const Json settings = text ? Json::parse(*text, nullptr, false) : Json();
  std::string line;
  for (const auto& [name, setting] : settings.items()) {
    if (!setting.is_object() || !setting.contains("value") || !setting["value"].is_string()) {
      continue;
    }
    const bool said = setting.contains("origin") && setting["origin"] != "default";
    if (said || name == "model" || name == "data") {
      line += (line.empty() ? "" : " ") + name + "=" + setting["value"].get<std::string>();
    }
  }
  return line;
}

/// Returns whether a value is among the facts above, or is one that every parameter has.
bool is_shown_or_of_a_parameter(const std::string& path) {
  return path == checkpoint::format::schema::kModelKeys || path == "/config/json" || path == "/config/argv" ||
         path == "/optimizer/param_groups" || path.starts_with("/optimizer/state/");
}

Rows value_rows(const CheckpointFile& file) {
  constexpr std::size_t kMost = 100;
  Rows rows{{"VALUE", ""}};
  for (const auto& [path, value] : file.values()) {
    if (!is_shown_or_of_a_parameter(path)) {
      const std::string text = value_text(value);
      rows.push_back({path.substr(1), text.size() <= kMost ? text : text.substr(0, kMost) + "..."});
    }
  }
  return rows;
}

/// Returns the summary, most important facts first.
std::string summary_text(const CheckpointFile& file) {
  const auto& info = file.info();
  const auto arguments = file.value<std::vector<std::string>>("/config/argv");
  Rows facts{{"file", file.path()},
             {"progress", progress_text(file)},
             {"best", best_text(file)},
             {"settings", settings_text(file)},
             {"command line", arguments ? value_text(*arguments) : ""},
             {"size", metrics::human_bytes(file.file_bytes())},
             {"created", info.created},
             {"written by", info.writer + (info.torch_version.empty() ? "" : ", torch " + info.torch_version)},
             {"format", info.format_version}};
  std::erase_if(facts, [](const std::vector<std::string>& row) { return row[1].empty(); });
  return command_line::text_table(facts) + "\n" + command_line::text_table(group_rows(file)) + "\n" +
         command_line::text_table(value_rows(file)) + "\nAll values, whole: --json\n";
}

std::string tensors_text(const CheckpointFile& file) {
  Rows rows{{"TENSOR", "TYPE", "SHAPE", "BYTES", "CRC-32C"}};
  for (const CheckpointTensor& tensor : file.tensors()) {
    rows.push_back({tensor.name(), std::string(checkpoint::format::dtype_name(tensor.dtype)),
                    checkpoint::format::shape_text(tensor.shape), std::to_string(tensor.bytes),
                    fmt::format("{:08x}", tensor.crc32c)});
  }
  return command_line::text_table(rows);
}

Json tensor_json(const CheckpointTensor& tensor) {
  return {{"name", tensor.name()}, {"path", tensor.path},   {"dtype", checkpoint::format::dtype_name(tensor.dtype)},
          {"shape", tensor.shape}, {"bytes", tensor.bytes}, {"crc32c", tensor.crc32c}};
}

Json summary_json(const CheckpointFile& file, bool with_tensors) {
  Json values = Json::object();
  for (const auto& [path, value] : file.values()) {
    values[path] = value_json(value);
  }
  const auto& info = file.info();
  Json json{{"path", file.path()},        {"bytes", file.file_bytes()}, {"format_version", info.format_version},
            {"writer", info.writer},      {"created", info.created},    {"torch_version", info.torch_version},
            {"values", std::move(values)}};
  if (with_tensors) {
    json["tensors"] = Json::array();
    for (const CheckpointTensor& tensor : file.tensors()) {
      json["tensors"].push_back(tensor_json(tensor));
    }
  }
  return json;
}

Json statistics_json(const Statistics& found) {
  return {{"elements", found.elements}, {"nan", found.nan},         {"infinite", found.infinite},
          {"zeros", found.zeros},       {"minimum", found.minimum}, {"maximum", found.maximum},
          {"mean", found.mean},         {"deviation", found.stddev}};
}

/// Prints statistics of the named tensors.
Result<int> show_tensors(CommandContext& context, const CheckpointFile& file, std::span<const std::string> names) {
  Json tensors = Json::array();
  Rows rows{{"TENSOR", "TYPE", "SHAPE", "MINIMUM", "MAXIMUM", "MEAN", "DEVIATION", "ZEROS", "NAN", "INFINITE"}};
  for (const std::string& name : names) {
    const CheckpointTensor* const tensor = file.find(name);
    if (tensor == nullptr) {
      return unknown_tensor(file, name);
    }
    ASSIGN_OR_RETURN(const auto bytes, file.read(*tensor));
    const Statistics found = statistics_of({bytes.get(), tensor->bytes}, tensor->dtype);
    rows.push_back({tensor->name(), std::string(checkpoint::format::dtype_name(tensor->dtype)),
                    checkpoint::format::shape_text(tensor->shape), fmt::format("{:.6g}", found.minimum),
                    fmt::format("{:.6g}", found.maximum), fmt::format("{:.6g}", found.mean),
                    fmt::format("{:.6g}", found.stddev), std::to_string(found.zeros), std::to_string(found.nan),
                    std::to_string(found.infinite)});
    tensors.push_back(tensor_json(*tensor));
    tensors.back()["statistics"] = statistics_json(found);
  }
  if (context.json()) {
    print_json(context.out, "show", {{"path", file.path()}, {"tensors", std::move(tensors)}});
  } else {
    context.out << command_line::text_table(rows);
  }
  return to_int(ExitCode::Success);
}

Result<int> run(CommandContext& context) {
  ASSIGN_OR_RETURN(const auto file, CheckpointFile::open(context.arguments.front()));
  const auto names = std::span<const std::string>(context.arguments).subspan(1);
  if (!names.empty()) {
    return show_tensors(context, file, names);
  }
  const bool all = context.line.has("tensors");
  if (context.json()) {
    print_json(context.out, "show", summary_json(file, all));
  } else {
    context.out << (all ? tensors_text(file) : summary_text(file));
  }
  return to_int(ExitCode::Success);
}

}  // namespace
}  // namespace show_impl

Command show_command() {
  return {"show", "what is in it", "CHECKPOINT [TENSOR...]", show_impl::kText, 1, kAnyNumber, show_impl::kFlags,
          {},     show_impl::run};
}

}  // namespace rollcall::checkpoint_tool
