#include <fmt/format.h>

#include <filesystem>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/interop/files.h"
#include "trainer/checkpoint/interop/state_dict.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/program.h"

namespace rollcall::checkpoint_tool {
namespace export_impl {
namespace {

using checkpoint::interop::OutputFile;
using checkpoint::interop::StateDict;

using settings::Kind;
using settings::Setting;

constexpr std::array kTable{
    Setting{"to", Kind::Choice, "auto", "auto|torch|safetensors",
            "Format of OUT. auto: by its name (.pt, .pth and .bin: torch; .safetensors)", "Export"},
    Setting{"weights", Kind::Choice, "average", "average|model",
            "Weights of a training with --ema. average: their moving average, by which the best checkpoint was chosen",
            "Export"},
};

constexpr std::string_view kText =
    R"help(Writes the model's parameters and buffers for other programs, as a file of torch.save or safetensors.
The names are torchvision's:

  torchvision.models.resnet50(num_classes=10).load_state_dict(torch.load(OUT, weights_only=True))

Examples:
  rollcall-checkpoint export checkpoints/best.h5 resnet50.pth
  rollcall-checkpoint export checkpoints resnet50.safetensors      the newest
)help";

/// Returns "torch" or "safetensors", from --to or from the file name.
Result<std::string> target_format(const CommandContext& context, const std::string& path) {
  const std::string& asked = context.options.text("to");
  if (asked != "auto") {
    return asked;
  }
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".safetensors") {
    return std::string("safetensors");
  }
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") {
    return std::string("torch");
  }
  return fail("--to", "auto", "the name " + path + " does not show the format", "--to=torch or --to=safetensors");
}

Result<StateDict> read_model(const CheckpointFile& file, bool averaged) {
  ASSIGN_OR_RETURN(const auto model, file.model());
  StateDict state;
  for (const CheckpointTensor* const tensor : model) {
    const CheckpointTensor* const average =
        averaged ? file.find(checkpoint::format::schema::average_path(tensor->key)) : nullptr;
    ASSIGN_OR_RETURN(auto bytes, file.read(average != nullptr ? *average : *tensor));
    state.tensors.push_back({tensor->key, tensor->dtype, tensor->shape, {bytes.get(), tensor->bytes}});
    state.storage.push_back(std::move(bytes));
  }
  return state;
}

Result<int> run(CommandContext& context) {
  const std::string& path = context.arguments[1];
  ASSIGN_OR_RETURN(const auto to, target_format(context, path));
  ASSIGN_OR_RETURN(const auto file, CheckpointFile::open(context.arguments[0]));
  ASSIGN_OR_RETURN(const auto state, read_model(file, context.options.text("weights") == "average"));
  ASSIGN_OR_RETURN(auto out, OutputFile::create(path, context.line.has("overwrite")));
  auto written = to == "torch" ? checkpoint::interop::write_torch_file(out, state.tensors)
                               : checkpoint::interop::write_safetensors(out, state.tensors);
  if (written) {
    written = out.commit();
  }
  if (!written) {
    return written.error();
  }
  if (context.json()) {
    print_json(context.out, "export",
               {{"path", path},
                {"from", file.path()},
                {"format", to},
                {"tensors", state.tensors.size()},
                {"bytes", out.size()}});
  } else {
    context.out << fmt::format("{}: {} of {}, {}\n", printable(path), counted(state.tensors.size(), "tensor"),
                               printable(file.path()), metrics::human_bytes(out.size()));
  }
  return to_int(ExitCode::Success);
}

}  // namespace
}  // namespace export_impl

Command export_command() {
  return {"export",
          "its model for PyTorch or safetensors",
          "CHECKPOINT OUT",
          export_impl::kText,
          2,
          2,
          kOutFlags,
          export_impl::kTable,
          export_impl::run};
}

}  // namespace rollcall::checkpoint_tool
