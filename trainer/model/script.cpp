#include "trainer/model/script.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/graph_iterator.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/text.h"

namespace rollcall::model {
namespace {

/// Registers the parameters and buffers of `script` and of its children in `module`: the same tensors, under the same
/// names.
void register_state(const torch::jit::Module& script, torch::nn::Module& module) {
  for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
    module.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  }
  for (const auto& buffer : script.named_buffers(/*recurse=*/false)) {
    module.register_buffer(buffer.name, buffer.value);
  }
  for (const auto& child : script.named_children()) {
    const auto made = std::make_shared<torch::nn::Module>(child.name);
    register_state(child.value, *made);
    module.register_module(child.name, made);
  }
}

/// A script as a module: its parameters and buffers are the script's tensors.
class ScriptImpl final : public ImageClassifier {
 public:
  explicit ScriptImpl(torch::jit::Module script) : script_(std::move(script)) { register_state(script_, *this); }

  at::Tensor forward(const at::Tensor& images, const at::Tensor& /*kept*/) override {
    RECORD_USER_SCOPE("compute: script");
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    return script_.forward({images}).toTensor();
  }

  void train(bool on) override {
    torch::nn::Module::train(on);
    script_.train(on);
  }

 private:
  torch::jit::Module script_;
};

std::string text_of(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

Result<torch::jit::Module> read_script(const std::string& path) {
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const std::exception& error) {
    const std::string text = text_of(error);
    const std::string sentence = text.substr(0, std::min(text.find(". "), text.find('\n')));
    return fail("--model", path, fmt::format("is not a TorchScript file: {}", sentence),
                "saving torch.jit.script(model), or --init-from if the file has weights alone", ErrorKind::BadData);
  }
}

Result<void> check_parameters(const torch::jit::Module& script, const std::string& path) {
  std::map<const void*, std::string> names;
  for (const auto& parameter : script.named_parameters()) {
    if (parameter.value.scalar_type() != at::kFloat) {
      return fail("--model", path, fmt::format("parameter {} is not float32", parameter.name), "saving model.float()",
                  ErrorKind::BadData);
    }
    const auto [other, is_new] = names.emplace(parameter.value.storage().unsafeGetStorageImpl(), parameter.name);
    if (!is_new) {
      return fail("--model", path,
                  fmt::format("parameters {} and {} share their memory", other->second, parameter.name),
                  "saving a model without shared weights", ErrorKind::BadData);
    }
  }
  return names.empty()
             ? fail("--model", path, "has no parameters", "saving it without torch.jit.freeze", ErrorKind::BadData)
             : Result<void>();
}

/// Looks for what would go wrong without an error.
Result<void> check_forward(const torch::jit::Module& script, const std::string& path) {
  const auto method = script.find_method("forward");
  const auto returned = method ? method->function().getSchema().returns() : std::vector<c10::Argument>();
  if (returned.size() != 1 || !returned.front().type()->isSubtypeOf(*c10::TensorType::get())) {
    return fail("--model", path,
                fmt::format("returns {}", returned.size() == 1 ? returned.front().type()->str() : "nothing"),
                "returning one tensor of logits from forward()", ErrorKind::BadData);
  }
  std::shared_ptr<torch::jit::Graph> graph = method->graph()->copy();
  torch::jit::Inline(*graph);
  bool has_modes = false;
  bool reads_mode = false;
  torch::jit::DepthFirstGraphNodeIterator nodes(graph);
  while (const torch::jit::Node* const node = nodes.next()) {
    const auto kind = node->kind();
    if (kind == c10::prim::SetAttr && node->input(1)->type()->isSubtypeOf(*c10::TensorType::get())) {
      return fail("--model", path,
                  fmt::format("forward() replaces {}, which checkpoints would miss", node->s(c10::attr::name)),
                  "changing it in place with copy_()", ErrorKind::BadData);
    }
    has_modes = has_modes || kind == c10::aten::batch_norm || kind == c10::aten::dropout;
    reads_mode = reads_mode || (kind == c10::prim::GetAttr && node->s(c10::attr::name) == "training");
  }
  return has_modes && !reads_mode
             ? fail("--model", path, "does not distinguish training from validation, as after torch.jit.trace",
                    "saving torch.jit.script(model)", ErrorKind::BadData)
             : Result<void>();
}

/// Runs two images of each size.
Result<void> check_outputs(ImageClassifier& model, const ScriptShape& shape, const std::string& path) {
  const torch::NoGradGuard no_grad;
  for (const std::int64_t size : shape.image_sizes) {
    at::Tensor outputs;
    try {
      outputs = model.forward(torch::zeros({2, 3, size, size}));
    } catch (const std::exception& error) {  // the last line says what failed, after the interpreter's traceback
      const std::vector<std::string> lines = split(std::string(trim(text_of(error))), '\n');
      return fail("--model", path, fmt::format("cannot compute images [2, 3, {0}, {0}]: {1}", size, trim(lines.back())),
                  "setting --image-size, or saving a model of images", ErrorKind::BadData);
    }
    if (outputs.dim() != 2 || outputs.size(0) != 2 || !outputs.is_floating_point()) {
      return fail("--model", path,
                  fmt::format("returns {} {} for two images", outputs.dtype().name(), c10::str(outputs.sizes())),
                  fmt::format("returning logits [2, {}]", shape.num_classes), ErrorKind::BadData);
    }
    if (outputs.size(1) != shape.num_classes) {
      return fail("--model", path,
                  fmt::format("has {} outputs, not one for each of {} classes", outputs.size(1), shape.num_classes),
                  fmt::format("saving it with {} outputs, or --num-classes={}", shape.num_classes, outputs.size(1)),
                  ErrorKind::BadData);
    }
  }
  return {};
}

}  // namespace

Result<Model> load_script(const std::string& path, const ScriptShape& shape) {
  torch::jit::setAutocastMode(false);  // precision::Autocast decides, as for every model
  ASSIGN_OR_RETURN(const torch::jit::Module script, read_script(path));
  RETURN_IF_ERROR(check_parameters(script, path));
  RETURN_IF_ERROR(check_forward(script, path));
  const Model model = std::make_shared<ScriptImpl>(script);
  model->eval();
  RETURN_IF_ERROR(check_outputs(*model, shape, path));
  model->train();
  return model;
}

}  // namespace rollcall::model
