#include <fmt/format.h>

#include <set>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/program.h"
#include "trainer/tools/checkpoint/statistics.h"

namespace rollcall::checkpoint_tool {
namespace diff_impl {
namespace {

using command_line::Flag;

/// The exit code if the checkpoints differ, as of diff(1).
constexpr int kDiffer = 1;

constexpr std::array kFlags{
    kHelp,
    kJson,
    Flag{"model", 0, "Compare only the model's parameters and buffers"},
};

constexpr std::string_view kText =
    R"help(Compares two checkpoints tensor by tensor (model, optimizer, generators) and value by value. For each
tensor that differs it prints the number of differing elements and the largest difference, absolute and relative to the
larger element. Two NaN are equal, and so are 0 and -0. Exit code 0: equal; 1: different.

Examples:
  rollcall-checkpoint diff run1/checkpoints/step-00000100.h5 run2/checkpoints/step-00000100.h5
  rollcall-checkpoint diff --model before.h5 after.h5
)help";

/// A row of the report: a tensor that differs.
struct Row {
  std::string name;
  std::string what;  ///< "differs", "only in A", "only in B", "other type", "other shape"
  std::string detail;
  Difference difference;
};

struct Comparison {
  std::uint64_t equal = 0;
  std::vector<Row> rows;
  std::vector<std::string> values;  ///< paths of values that differ or are in one only
};

std::string described(const CheckpointTensor& tensor) {
  return fmt::format("{}{}", checkpoint::format::dtype_name(tensor.dtype),
                     checkpoint::format::shape_text(tensor.shape));
}

/// Compares two tensors. The row's name is empty if they are equal.
Result<Row> compare_tensors(const CheckpointFile& a, const CheckpointTensor& left, const CheckpointFile& b,
                            const CheckpointTensor& right) {
  if (left.dtype != right.dtype || left.shape != right.shape) {
    return Row{left.name(),
               left.dtype != right.dtype ? "other type" : "other shape",
               described(left) + " and " + described(right),
               {}};
  }
  ASSIGN_OR_RETURN(const auto left_bytes, a.read(left));
  ASSIGN_OR_RETURN(const auto right_bytes, b.read(right));
  const Difference found = difference_of({left_bytes.get(), left.bytes}, {right_bytes.get(), right.bytes}, left.dtype);
  return found.differing == 0 ? Row{} : Row{left.name(), "differs", described(left), found};
}

/// Returns the paths of values that differ or are in only one checkpoint.
std::vector<std::string> differing_values(const CheckpointFile& a, const CheckpointFile& b) {
  std::set<std::string> paths;
  for (const auto* const values : {&a.values(), &b.values()}) {
    for (const auto& [path, value] : *values) {
      const auto left = a.values().find(path);
      const auto right = b.values().find(path);
      if (left == a.values().end() || right == b.values().end() || left->second != right->second) {
        paths.insert(path);
      }
    }
  }
  return {paths.begin(), paths.end()};
}

bool is_wanted(const CheckpointTensor& tensor, bool only_model) {
  return !only_model || tensor.path.starts_with("/model/");
}

Result<Comparison> compare(const CheckpointFile& a, const CheckpointFile& b, bool only_model,
                           metrics::WorkProgress& progress) {
  Comparison found;
  progress.begin("comparing", a.tensors().size());
  std::uint64_t done = 0;
  std::uint64_t bytes = 0;
  for (const CheckpointTensor& left : a.tensors()) {
    if (!is_wanted(left, only_model)) {
      continue;
    }
    const CheckpointTensor* const right = b.find(left.path);
    if (right == nullptr) {
      found.rows.push_back({left.name(), "only in A", described(left), {}});
      continue;
    }
    ASSIGN_OR_RETURN(auto row, compare_tensors(a, left, b, *right));
    found.equal += row.name.empty() ? 1U : 0U;
    if (!row.name.empty()) {
      found.rows.push_back(std::move(row));
    }
    progress.step(++done, bytes += left.bytes + right->bytes);
  }
  for (const CheckpointTensor& right : b.tensors()) {
    if (is_wanted(right, only_model) && a.find(right.path) == nullptr) {
      found.rows.push_back({right.name(), "only in B", described(right), {}});
    }
  }
  if (!only_model) {
    found.values = differing_values(a, b);
  }
  progress.end();
  return found;
}

std::string comparison_text(const Comparison& found) {
  std::string text;
  if (!found.rows.empty()) {
    std::vector<std::vector<std::string>> rows{{"TENSOR", "WHAT", "MAX ABS", "MAX REL", "ELEMENTS", "DETAIL"}};
    for (const Row& row : found.rows) {
      const Difference& by = row.difference;
      const bool measured = by.elements > 0;
      rows.push_back({row.name, row.what, measured ? fmt::format("{:.3g}", by.max_absolute) : "-",
                      measured ? fmt::format("{:.3g}", by.max_relative) : "-",
                      measured ? fmt::format("{} of {}", by.differing, by.elements) : "-", row.detail});
    }
    text = command_line::text_table(rows) + "\n";
  }
  for (const std::string& path : found.values) {
    text += "value differs: " + printable(path) + "\n";
  }
  return text + fmt::format("equal: {}; different: {}, {}\n", counted(found.equal, "tensor"),
                            counted(found.rows.size(), "tensor"), counted(found.values.size(), "value"));
}

/// Returns the JSON of a difference. Numbers that are not finite are null.
Json difference_json(const Difference& found) {
  return {{"elements", found.elements},
          {"differing", found.differing},
          {"max_absolute", found.max_absolute},
          {"max_relative", found.max_relative},
          {"mean_absolute", found.mean_absolute}};
}

Json comparison_json(const CheckpointFile& a, const CheckpointFile& b, const Comparison& found) {
  Json tensors = Json::array();
  for (const Row& row : found.rows) {
    Json json{{"name", row.name}, {"what", row.what}, {"detail", row.detail}};
    if (row.difference.elements > 0) {
      json["difference"] = difference_json(row.difference);
    }
    tensors.push_back(std::move(json));
  }
  return {{"a", a.path()},
          {"b", b.path()},
          {"equal", found.rows.empty() && found.values.empty()},
          {"equal_tensors", found.equal},
          {"tensors", std::move(tensors)},
          {"values", found.values}};
}

Result<int> run(CommandContext& context) {
  ASSIGN_OR_RETURN(const auto a, CheckpointFile::open(context.arguments[0]));
  ASSIGN_OR_RETURN(const auto b, CheckpointFile::open(context.arguments[1]));
  ASSIGN_OR_RETURN(const auto found, compare(a, b, context.line.has("model"), context.progress));
  if (context.json()) {
    print_json(context.out, "diff", comparison_json(a, b, found));
  } else {
    context.out << comparison_text(found);
  }
  return found.rows.empty() && found.values.empty() ? to_int(ExitCode::Success) : kDiffer;
}

}  // namespace
}  // namespace diff_impl

Command diff_command() {
  return {"diff",
          "which tensors differ, and how much",
          "A B",
          diff_impl::kText,
          2,
          2,
          diff_impl::kFlags,
          kProgressTable,
          diff_impl::run};
}

}  // namespace rollcall::checkpoint_tool
