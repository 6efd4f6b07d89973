#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/text.h"
#include "trainer/checkpoint/interop/state_dict.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/known_models.h"
#include "trainer/tools/checkpoint/program.h"

namespace rollcall::checkpoint_tool {
namespace import_impl {
namespace {

using checkpoint::interop::StateDict;
using checkpoint::interop::StateTensor;
using settings::Kind;
using settings::Setting;

constexpr std::array kTable{
    Setting{"key", Kind::Text, "", "NAME",
            "Item of the file's dict that is the state dict. state.model names an item of an inner dict. It may "
            "also be the prefix of the names of one of several models. Empty: the dict itself, its state_dict, "
            "model_state_dict or model, or its only item",
            "Import"},
};

constexpr std::string_view kText =
    R"help(Makes a checkpoint from a state dict in a file of torch.save (PyTorch 1.6 or newer) or safetensors. Nothing in
the file is executed: only the parts of a pickle that form a state dict are read, and the rest is skipped. The prefixes
"module.", "_orig_mod." and "model." are removed if most names have them.

Examples:
  rollcall-checkpoint import resnet50-11ad3fa6.pth start.h5
  rollcall-checkpoint import --key=model_ema model_599.pth start.h5
)help";

/// Adds the other tensors to the state dict of an unknown model, except the counter of PyTorch's AveragedModel.
void keep_others(StateDict& state) {
  const auto counter = std::stable_partition(state.others.begin(), state.others.end(), [](const StateTensor& tensor) {
    return tensor.key != "n_averaged" || !tensor.shape.empty();
  });
  state.tensors.insert(state.tensors.end(), state.others.begin(), counter);
  state.others.erase(state.others.begin(), counter);
}

/// Returns which parts of the file are not in the checkpoint, as text.
std::string left_out_text(const StateDict& state) {
  constexpr std::size_t kLongest = 200;  // length of a name
  const auto shown = [](const std::string& name) { return printable(name.substr(0, kLongest)); };
  const std::string taken = taken_text(state);
  std::string text = taken.empty() ? "" : "; " + printable(taken);
  if (!state.prefix.empty()) {
    text += fmt::format("; the prefix \"{}\" is removed", shown(state.prefix));
  }
  if (!state.others.empty()) {
    text += fmt::format("; left out: {}{}", shown(state.others.front().key),
                        state.others.size() > 1 ? fmt::format(" and {} more", state.others.size() - 1) : "");
  }
  return text;
}

Result<int> run(CommandContext& context) {
  const std::string& from = context.arguments[0];
  const std::string& path = context.arguments[1];
  ASSIGN_OR_RETURN(auto state, checkpoint::interop::read_state_dict(from, context.options.text("key")));
  if (state.tensors.empty()) {
    return fail("state dict", from, "holds no tensors", "saving it with torch.save(model.state_dict(), FILE)",
                ErrorKind::BadData);
  }
  ASSIGN_OR_RETURN(const auto recognised, recognise_model(state, from));
  const std::optional<KnownModel>& model = recognised;
  if (!model) {
    keep_others(state);
  }
  RETURN_IF_ERROR(
      write_model_checkpoint(path, context.line.has("overwrite"), state.tensors, {{"/imported_from", from}}));
  if (context.json()) {
    Json json{{"path", path},
              {"from", from},
              {"tensors", state.tensors.size()},
              {"key", state.key},
              {"other_keys", state.other_keys},
              {"prefix", state.prefix},
              {"left_out", Json::array()},
              {"model", nullptr}};
    for (const StateTensor& tensor : state.others) {
      json["left_out"].push_back(tensor.key);
    }
    if (model) {
      json["model"] = model->name;
      json["num_classes"] = model->num_classes;
    }
    print_json(context.out, "import", json);
  } else {
    context.out << fmt::format(
        "{}: {} of {}, {}{}\n", printable(path), counted(state.tensors.size(), "tensor"), printable(from),
        model ? fmt::format("{} with {}", model->name, counted(model->num_classes, "class", "classes"))
              : "a model that rollcall-train does not have (it has resnet18, 34, 50, 101 and 152)",
        left_out_text(state));
  }
  return to_int(ExitCode::Success);
}

}  // namespace
}  // namespace import_impl

Command import_command() {
  return {"import",
          "a model of PyTorch's as a checkpoint",
          "FILE OUT",
          import_impl::kText,
          2,
          2,
          kOutFlags,
          import_impl::kTable,
          import_impl::run};
}

}  // namespace rollcall::checkpoint_tool
