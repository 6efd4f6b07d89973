#include <fmt/format.h>

#include "runtime/base/text.h"
#include "trainer/checkpoint/exchange/read_state_dict.h"
#include "trainer/tools/checkpoint/command.h"
#include "trainer/tools/checkpoint/json_report.h"
#include "trainer/tools/checkpoint/known_models.h"
#include "trainer/tools/checkpoint/new_checkpoint.h"

namespace rollcall::checkpoint_tool {

Result<int> run_import(CommandContext& context) {
  const std::string& from = context.arguments[0];
  const std::string& path = context.arguments[1];
  auto state = checkpoint::exchange::read_state_dict(from, context.options.text("key"));
  if (!state) {
    return state.error();
  }
  if (state->tensors.empty()) {
    return fail("state dict", from, "holds no tensor", "torch.save(model.state_dict(), FILE) in Python",
                ExitCode::BadData);
  }
  const auto model = recognise_model(state->tensors);
  if (auto written =
          write_model_checkpoint(path, context.line.has("overwrite"), state->tensors, {{"/imported_from", from}});
      !written) {
    return written.error();
  }
  if (context.json()) {
    Json json{{"path", path}, {"from", from}, {"tensors", state->tensors.size()}, {"model", nullptr}};
    if (model) {
      json["model"] = model->name;
      json["num_classes"] = model->num_classes;
    }
    print_json(context.out, "import", json);
  } else {
    context.out << fmt::format(
        "{}: {} tensors of {}, {}\n", printable(path), state->tensors.size(), printable(from),
        model ? fmt::format("{} with {} classes", model->name, model->num_classes)
              : "a model that rollcall-train does not have (it has resnet18, 34, 50, 101 and 152)");
  }
  return to_int(ExitCode::Success);
}

}  // namespace rollcall::checkpoint_tool
