#include "trainer/tools/checkpoint/known_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::exchange::StateTensor;

struct Shape {
  std::string_view name;
  std::array<int, 4> blocks;
  bool bottleneck = false;
  std::int64_t width = 64;  ///< of the first stage
  std::int64_t first = 7;   ///< rows of the first convolution
};

constexpr std::array kShapes{
    Shape{.name = "resnet20", .blocks = {3, 3, 3, 0}, .width = 16, .first = 3},
    Shape{.name = "resnet18", .blocks = {2, 2, 2, 2}},
    Shape{.name = "resnet34", .blocks = {3, 4, 6, 3}},
    Shape{.name = "resnet50", .blocks = {3, 4, 6, 3}, .bottleneck = true},
    Shape{.name = "resnet101", .blocks = {3, 4, 23, 3}, .bottleneck = true},
    Shape{.name = "resnet152", .blocks = {3, 8, 36, 3}, .bottleneck = true},
};

/// Adds layer after layer.
class Layout {
 public:
  void convolution(const std::string& name, std::int64_t out, std::int64_t in, std::int64_t size) {
    tensors_.push_back({name + ".weight", {out, in, size, size}});
  }
  void batch_norm(const std::string& name, std::int64_t channels) {
    for (const char* const part : {"weight", "bias", "running_mean", "running_var"}) {
      tensors_.push_back({name + "." + part, {channels}});
    }
    tensors_.push_back({name + ".num_batches_tracked", {}});
  }
  /// One residual block; gives its output channels.
  std::int64_t block(const std::string& name, bool bottleneck, std::int64_t in, std::int64_t width, bool downsample) {
    const std::int64_t out = bottleneck ? 4 * width : width;
    convolution(name + ".conv1", width, in, bottleneck ? 1 : 3);
    batch_norm(name + ".bn1", width);
    convolution(name + ".conv2", width, width, 3);
    batch_norm(name + ".bn2", width);
    if (bottleneck) {
      convolution(name + ".conv3", out, width, 1);
      batch_norm(name + ".bn3", out);
    }
    if (downsample) {
      convolution(name + ".downsample.0", out, in, 1);
      batch_norm(name + ".downsample.1", out);
    }
    return out;
  }
  void linear(const std::string& name, std::int64_t out, std::int64_t in) {
    tensors_.push_back({name + ".weight", {out, in}});
    tensors_.push_back({name + ".bias", {out}});
  }
  std::vector<ModelTensor> tensors_;
};

}  // namespace

std::optional<std::vector<ModelTensor>> resnet_tensors(const std::string& name, std::int64_t num_classes) {
  const auto shape = std::ranges::find(kShapes, name, &Shape::name);
  if (shape == kShapes.end()) {
    return std::nullopt;
  }
  Layout layout;
  std::int64_t channels = shape->width;
  layout.convolution("conv1", channels, 3, shape->first);
  layout.batch_norm("bn1", channels);
  for (std::size_t stage = 0; stage < shape->blocks.size(); ++stage) {
    const std::int64_t width = shape->width << stage;
    for (int block = 0; block < shape->blocks[stage]; ++block) {
      const bool downsample = block == 0 && (stage > 0 || shape->bottleneck);
      channels =
          layout.block(fmt::format("layer{}.{}", stage + 1, block), shape->bottleneck, channels, width, downsample);
    }
  }
  layout.linear("fc", num_classes, channels);
  return layout.tensors_;
}

std::optional<KnownModel> recognise_model(std::vector<StateTensor>& tensors) {
  std::map<std::string_view, std::size_t> place;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    place.emplace(tensors[i].key, i);
  }
  const auto head = place.find("fc.bias");
  if (head == place.end() || tensors[head->second].shape.size() != 1) {
    return std::nullopt;
  }
  const std::int64_t num_classes = tensors[head->second].shape.front();
  for (const Shape& shape : kShapes) {
    const auto model = *resnet_tensors(std::string(shape.name), num_classes);
    const auto is_there = [&](const ModelTensor& tensor) {
      const auto found = place.find(tensor.key);
      return found != place.end() && tensors[found->second].shape == tensor.shape;
    };
    if (model.size() == tensors.size() && std::ranges::all_of(model, is_there)) {
      std::vector<StateTensor> ordered;
      ordered.reserve(model.size());
      for (const ModelTensor& tensor : model) {
        ordered.push_back(tensors[place.at(tensor.key)]);
      }
      tensors = std::move(ordered);
      return KnownModel{std::string(shape.name), num_classes};
    }
  }
  return std::nullopt;
}

}  // namespace rollcall::checkpoint_tool
