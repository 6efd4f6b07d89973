#include "trainer/tools/checkpoint/known_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "trainer/model/resnet_shapes.h"

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::interop::StateDict;
using checkpoint::interop::StateTensor;
using model::kResNets;
using model::ResNetShape;

/// Builds the list of a model's tensors, layer by layer.
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
  /// Adds a residual block and returns its output channels.
  std::int64_t block(const std::string& name, const ResNetShape& shape, std::int64_t in, std::int64_t width,
                     bool downsample) {
    const std::int64_t inner = shape.bottleneck ? shape.inner_width(width) : width;
    const std::int64_t out = shape.bottleneck ? 4 * width : width;
    convolution(name + ".conv1", inner, in, shape.bottleneck ? 1 : 3);
    batch_norm(name + ".bn1", inner);
    convolution(name + ".conv2", inner, inner / shape.groups, 3);
    batch_norm(name + ".bn2", inner);
    if (shape.bottleneck) {
      convolution(name + ".conv3", out, inner, 1);
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

/// Returns the prefixes of the names of ResNets in a file, in its order.
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

/// Returns the indices of a model's tensors in the model's order; empty if one is missing.
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

/// A model found in a state dict.
struct FoundModel {
  std::string prefix;                ///< before its names
  std::vector<std::size_t> tensors;  ///< their numbers, in the model's order
  KnownModel model;
};

/// Returns how many names have `prefix` but no longer prefix of a model.
std::size_t names_of(const std::vector<StateTensor>& tensors, const std::vector<std::string>& prefixes,
                     const std::string& prefix) {
  return static_cast<std::size_t>(std::ranges::count_if(tensors, [&](const StateTensor& tensor) {
    return tensor.key.starts_with(prefix) && std::ranges::none_of(prefixes, [&](const std::string& longer) {
             return longer.size() > prefix.size() && tensor.key.starts_with(longer);
           });
  }));
}

std::vector<FoundModel> models_in(const std::vector<StateTensor>& tensors) {
  const Places places = places_of(tensors);
  const std::vector<std::string> prefixes = prefixes_of(tensors);
  std::vector<FoundModel> models;
  for (const std::string& prefix : prefixes) {
    const auto head = places.find(prefix + "fc.bias");
    if (head == places.end() || tensors[head->second].shape.size() != 1) {
      continue;
    }
    const std::int64_t num_classes = tensors[head->second].shape.front();
    for (const ResNetShape& shape : kResNets) {
      std::vector<std::size_t> found =
          find_model(tensors, places, prefix, *resnet_tensors(std::string(shape.name), num_classes));
      if (!found.empty() &&
          found.size() == names_of(tensors, prefixes, prefix)) {  // more names belong to a larger network
        models.push_back({prefix, std::move(found), {std::string(shape.name), num_classes}});
        break;
      }
    }
  }
  return models;
}

/// Reduces the state dict to the model's tensors, in the model's order and without the prefix.
void keep(StateDict& state, std::vector<StateTensor> whole, const FoundModel& found) {
  std::vector<bool> is_kept(whole.size());
  state.tensors.clear();
  state.others.clear();
  for (const std::size_t number : found.tensors) {
    state.tensors.push_back(whole[number]);
    state.tensors.back().key.erase(0, found.prefix.size());
    is_kept[number] = true;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!is_kept[i]) {
      state.others.push_back(std::move(whole[i]));
    }
  }
  state.prefix = found.prefix;
}

}  // namespace

std::optional<std::vector<ModelTensor>> resnet_tensors(const std::string& name, std::int64_t num_classes) {
  const auto* const shape = std::ranges::find(kResNets, name, &ResNetShape::name);
  if (shape == kResNets.end()) {
    return std::nullopt;
  }
  Layout layout;
  std::int64_t channels = shape->width;
  layout.convolution("conv1", channels, 3, shape->small_images ? 3 : 7);
  layout.batch_norm("bn1", channels);
  for (std::size_t stage = 0; stage < shape->blocks.size(); ++stage) {
    const std::int64_t width = shape->width << stage;
    for (int block = 0; block < shape->blocks[stage]; ++block) {
      const bool downsample = block == 0 && (stage > 0 || shape->bottleneck);
      channels = layout.block(fmt::format("layer{}.{}", stage + 1, block), *shape, channels, width, downsample);
    }
  }
  layout.linear("fc", num_classes, channels);
  return layout.tensors_;
}

Result<std::optional<KnownModel>> recognise_model(StateDict& state, const std::string& path) {
  std::vector<StateTensor> whole = with_whole_names(state);
  const std::vector<FoundModel> models = models_in(whole);
  if (models.empty()) {
    return std::optional<KnownModel>();
  }
  if (models.size() > 1) {
    const std::string& last = models.back().prefix.empty() ? models.front().prefix : models.back().prefix;
    return fail("state dict", path,
                fmt::format("holds several models, whose names have different prefixes: \"{}\" and \"{}\"{}",
                            models[0].prefix, models[1].prefix, models.size() > 2 ? ", ..." : ""),
                "rollcall-checkpoint import --key=" + last.substr(0, last.size() - 1), ErrorKind::BadData);
  }
  keep(state, std::move(whole), models.front());
  return std::optional(models.front().model);
}

}  // namespace rollcall::checkpoint_tool
