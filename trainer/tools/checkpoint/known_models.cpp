#include "trainer/tools/checkpoint/known_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::exchange::StateDict;
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

using Places = std::map<std::string, std::size_t, std::less<>>;  ///< numbers of tensors by their names

Places places_of(const std::vector<StateTensor>& tensors) {
  Places places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    places.emplace(tensors[i].key, i);
  }
  return places;
}

/// What is before the names of ResNets in a file, in its order.
std::vector<std::string> prefixes_of(const std::vector<StateTensor>& tensors) {
  constexpr std::string_view kInEachOnce = "layer1.0.conv1.weight";
  constexpr std::size_t kMost = 16;
  std::vector<std::string> found;
  for (const StateTensor& tensor : tensors) {
    const std::string_view key = tensor.key;
    const bool here = key == kInEachOnce || key.ends_with("." + std::string(kInEachOnce));
    if (here && found.size() < kMost) {
      found.emplace_back(key.substr(0, key.size() - kInEachOnce.size()));
    }
  }
  return found;
}

/// The numbers of a model's tensors in its own order; empty where one is missing.
std::vector<std::size_t> find_model(const std::vector<StateTensor>& tensors, const Places& places,
                                    const std::string& prefix, const std::vector<ModelTensor>& model) {
  std::vector<std::size_t> found;
  for (const ModelTensor& tensor : model) {
    const auto place = places.find(prefix + tensor.key);
    if (place != places.end() && tensors[place->second].shape == tensor.shape) {
      found.push_back(place->second);
    } else if (place != places.end() || !tensor.key.ends_with(".num_batches_tracked")) {
      return {};
    }
  }
  return found;
}

/// Leaves these tensors, in this order, and without `prefix`.
void keep(StateDict& state, const std::vector<std::size_t>& numbers, const std::string& prefix) {
  std::vector<StateTensor> kept;
  std::vector<bool> is_kept(state.tensors.size());
  for (const std::size_t number : numbers) {
    kept.push_back(state.tensors[number]);
    kept.back().key.erase(0, prefix.size());
    is_kept[number] = true;
  }
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    if (!is_kept[i]) {
      state.others.push_back(std::move(state.tensors[i]));
      state.others.back().key.insert(0, state.prefix);
    }
  }
  state.tensors = std::move(kept);
  state.prefix += prefix;
}

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

std::optional<KnownModel> recognise_model(StateDict& state) {
  const Places places = places_of(state.tensors);
  for (const std::string& prefix : prefixes_of(state.tensors)) {
    const auto head = places.find(prefix + "fc.bias");
    if (head == places.end() || state.tensors[head->second].shape.size() != 1) {
      continue;
    }
    const std::int64_t num_classes = state.tensors[head->second].shape.front();
    const auto with_prefix = static_cast<std::size_t>(std::ranges::count_if(
        state.tensors, [&](const StateTensor& tensor) { return tensor.key.starts_with(prefix); }));
    for (const Shape& shape : kShapes) {
      const auto found =
          find_model(state.tensors, places, prefix, *resnet_tensors(std::string(shape.name), num_classes));
      if (!found.empty() && found.size() == with_prefix) {  // more names: of a larger network
        keep(state, found, prefix);
        return KnownModel{std::string(shape.name), num_classes};
      }
    }
  }
  return std::nullopt;
}

}  // namespace rollcall::checkpoint_tool
