#include <fmt/format.h>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/json_report.h"
#include "trainer/tools/checkpoint/program.h"

namespace rollcall::checkpoint_tool {
namespace show_impl {
namespace {

using checkpoint::format::Value;
using Rows = std::vector<std::vector<std::string>>;

using command_line::Flag;

constexpr std::array kFlags{
    kHelp,
    kJson,
    Flag{"tensors", 0, "list all tensors: type, shape, size, checksum"},
};

constexpr std::string_view kText =
    R"help(Prints what a checkpoint says of itself: who wrote it and when, how far the training was, its settings, and how
many tensors of what it holds. With names of tensors: what is in these (least, greatest, mean, standard deviation; how
many zeros, NaN and infinities). Every byte that is shown was checked.

Examples:
  rollcall-checkpoint show checkpoints
  rollcall-checkpoint show --tensors checkpoints/best.h5
  rollcall-checkpoint show best.h5 fc.weight /optimizer/state/fc.weight/exp_avg_sq
)help";

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

/// Tensors below "/model", "/optimizer" and so on: how many, and how much.
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

std::string summary_text(const CheckpointFile& file) {
  const auto& info = file.info();
  Rows facts{{"file", file.path()},
             {"size", metrics::human_bytes(file.file_bytes())},
             {"format", info.format_version},
             {"created", info.created},
             {"written by", info.writer + (info.torch_version.empty() ? "" : ", torch " + info.torch_version)}};
  for (const auto& [path, value] : file.values()) {
    if (path != checkpoint::format::schema::kModelKeys) {
      facts.push_back({path.substr(1), value_text(value)});
    }
  }
  return command_line::text_table(facts) + "\n" + command_line::text_table(group_rows(file));
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

/// The tensors that were named, with what is in them.
Result<int> show_tensors(CommandContext& context, const CheckpointFile& file, std::span<const std::string> names) {
  Json tensors = Json::array();
  Rows rows{{"TENSOR", "TYPE", "SHAPE", "MINIMUM", "MAXIMUM", "MEAN", "DEVIATION", "ZEROS", "NAN", "INFINITE"}};
  for (const std::string& name : names) {
    const CheckpointTensor* const tensor = file.find(name);
    if (tensor == nullptr) {
      return unknown_tensor(file, name);
    }
    const auto bytes = file.read(*tensor);
    if (!bytes) {
      return bytes.error();
    }
    const Statistics found = statistics_of({bytes->get(), tensor->bytes}, tensor->dtype);
    rows.push_back({tensor->name(), std::string(checkpoint::format::dtype_name(tensor->dtype)),
                    checkpoint::format::shape_text(tensor->shape), fmt::format("{:.6g}", found.minimum),
                    fmt::format("{:.6g}", found.maximum), fmt::format("{:.6g}", found.mean),
                    fmt::format("{:.6g}", found.deviation), std::to_string(found.zeros), std::to_string(found.nan),
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
  const auto file = CheckpointFile::open(context.arguments.front());
  if (!file) {
    return file.error();
  }
  const auto names = std::span<const std::string>(context.arguments).subspan(1);
  if (!names.empty()) {
    return show_tensors(context, *file, names);
  }
  const bool all = context.line.has("tensors");
  if (context.json()) {
    print_json(context.out, "show", summary_json(*file, all));
  } else {
    context.out << (all ? tensors_text(*file) : summary_text(*file));
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
