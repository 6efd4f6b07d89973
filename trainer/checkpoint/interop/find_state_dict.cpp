#include "trainer/checkpoint/interop/find_state_dict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/text.h"

namespace rollcall::checkpoint::interop {
namespace {

/// The names in other programs' checkpoints: torchvision's references, Lightning, timm, PyTorch's tutorials.
constexpr std::array kUsualKeys{"state_dict", "model_state_dict", "model"};
constexpr std::size_t kMostNamed = 10;
constexpr std::size_t kLongestPath = 200;
constexpr const char* kSaveStateDict = "running torch.save(model.state_dict(), FILE) in Python";

struct NamedDict {
  std::string path;  ///< "state.model"
  const PickleDict* dict = nullptr;
};

std::ptrdiff_t tensors_in(const PickleTree& tree, const PickleDict& dict) {
  return std::ranges::count_if(dict.items, [&](const auto& item) {
    return tree.as<std::string>(item.first) != nullptr && tree.as<PickleTensor>(item.second) != nullptr;
  });
}

/// Returns the dicts in `dict` and in these, by text keys; so an optimizer's moments are not among them.
std::vector<NamedDict> dicts_in(const PickleTree& tree, const PickleDict& dict) {
  constexpr std::size_t kLevels = 2;
  constexpr std::size_t kMostDicts = 1000;
  std::vector<NamedDict> found{{"", &dict}};
  std::set<const PickleDict*> seen{&dict};
  std::size_t begin = 0;
  for (std::size_t level = 0; level < kLevels; ++level) {
    const std::size_t end = found.size();
    for (; begin < end; ++begin) {
      const std::string above = found[begin].path;
      for (const auto& [name, value] : found[begin].dict->items) {
        const auto* const text = tree.as<std::string>(name);
        const auto* const inner = tree.as<PickleDict>(value);
        if (text != nullptr && inner != nullptr && above.size() + text->size() < kLongestPath &&
            found.size() <= kMostDicts && seen.insert(inner).second) {
          found.push_back({above.empty() ? *text : above + "." + *text, inner});
        }
      }
    }
  }
  found.erase(found.begin());
  return found;
}

bool begins_a_name(const PickleTree& tree, const PickleDict& dict, const std::string& prefix) {
  return std::ranges::any_of(dict.items, [&](const auto& item) {
    const auto* const name = tree.as<std::string>(item.first);
    return name != nullptr && name->starts_with(prefix);
  });
}

std::string keys_text(const PickleTree& tree, const PickleDict& dict) {
  std::vector<std::string> keys;
  for (const auto& item : dict.items) {
    const auto* const key = tree.as<std::string>(item.first);
    if (key != nullptr && keys.size() < kMostNamed) {
      keys.push_back(key->substr(0, kLongestPath));
    }
  }
  return fmt::format("{}{}", fmt::join(keys, ", "), dict.items.size() > keys.size() ? ", ..." : "");
}

/// Returns the class of an unknown item in a place where a state dict is looked for: a whole model, or tensors of other
/// types. Takes the first item that `names` has, or the first of all if `names` is empty.
std::string unknown_item(const PickleTree& tree, const PickleDict& dict, const std::vector<std::string_view>& names) {
  for (const auto& [key, value] : dict.items) {
    const auto* const text = tree.as<std::string>(key);
    const bool wanted = text != nullptr && (names.empty() || std::ranges::find(names, *text) != names.end());
    if (wanted && tree.as<PickleUnknown>(value) != nullptr) {
      return fmt::format("; its {} is {}", text->substr(0, kLongestPath), describe(tree, value));
    }
  }
  return "";
}

/// Returns whether the file is one rank's part of a DeepSpeed checkpoint: where ZeRO divides the parameters, or in a
/// file of the optimizer, the model is missing or has no elements.
bool is_part_of_deepspeed(const PickleTree& tree, const PickleDict& root) {
  if (tree.find(root, "ds_version") == nullptr) {
    return false;
  }
  const PickleIndex* const module = tree.find(root, "module");
  const auto* const dict = module == nullptr ? nullptr : tree.as<PickleDict>(*module);
  return dict == nullptr || std::ranges::all_of(dict->items, [&](const auto& item) {
           const auto* const tensor = tree.as<PickleTensor>(item.second);
           return tensor == nullptr || std::ranges::find(tensor->shape, 0) != tensor->shape.end();
         });
}

const NamedDict* usual_one(const std::vector<NamedDict>& dicts) {
  for (const char* const name : kUsualKeys) {
    if (const auto usual = std::ranges::find(dicts, name, &NamedDict::path); usual != dicts.end()) {
      return &*usual;
    }
  }
  return nullptr;
}

/// Returns `one`, with the other dicts that are a model, and not metrics or a criterion.
FoundDict taken(const PickleTree& tree, const NamedDict& one, const std::vector<NamedDict>& dicts) {
  FoundDict found{one.dict, one.path};
  for (const NamedDict& other : dicts) {
    const bool is_model = 2 * tensors_in(tree, *other.dict) >= tensors_in(tree, *one.dict);
    if (other.dict != one.dict && is_model && found.others.size() < kMostNamed) {
      found.others.push_back(other.path);
    }
  }
  return found;
}

/// Returns `found` unless `root` itself holds a model, because a dict in it is then not more likely to be meant.
Result<FoundDict> unless_root_is_a_model(const PickleTree& tree, const PickleDict& root, FoundDict found,
                                         const InputFile& file) {
  const std::ptrdiff_t beside = tensors_in(tree, root);
  if (beside == 0 || 2 * beside < tensors_in(tree, *found.dict)) {
    return found;
  }
  return file.unusable(
      fmt::format("holds {} beside the dict {}", counted(beside, "tensor"), found.key),
      fmt::format("rollcall-checkpoint import --key={}, or saving a file without those tensors", found.key));
}

/// Returns the dict that is usually meant, or the only one.
Result<FoundDict> choose(const PickleTree& tree, const PickleDict& root, const InputFile& file) {
  const std::vector<NamedDict> dicts = dicts_in(tree, root);
  std::vector<NamedDict> found;
  std::ranges::copy_if(dicts, std::back_inserter(found),
                       [&](const NamedDict& one) { return tensors_in(tree, *one.dict) > 0; });
  if (const NamedDict* const usual = usual_one(found)) {
    return unless_root_is_a_model(tree, root, taken(tree, *usual, found), file);
  }
  if (found.size() == 1) {
    return unless_root_is_a_model(tree, root, taken(tree, found.front(), {}), file);
  }
  if (found.empty() && tensors_in(tree, root) > 0) {
    return FoundDict{&root};
  }
  if (const NamedDict* const usual = found.empty() ? usual_one(dicts) : nullptr) {
    return taken(tree, *usual, {});  // it has no tensor: reading it reports what it holds instead
  }
  if (found.empty()) {
    const std::string usual_item = unknown_item(tree, root, {kUsualKeys.begin(), kUsualKeys.end()});
    return file.unusable(fmt::format("is not a state dict; it holds {}{}", keys_text(tree, root),
                                     usual_item.empty() ? unknown_item(tree, root, {}) : usual_item),
                         kSaveStateDict);
  }
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < std::min(found.size(), kMostNamed); ++i) {
    paths.push_back(found[i].path);
  }
  return file.unusable(fmt::format("holds several state dicts: {}{}", fmt::join(paths, ", "),
                                   found.size() > paths.size() ? ", ..." : ""),
                       fmt::format("rollcall-checkpoint import --key={}", paths.front()));
}

}  // namespace

std::string describe(const PickleTree& tree, PickleIndex value) {
  const auto* const unknown = tree.as<PickleUnknown>(value);
  return unknown == nullptr
             ? "not a tensor"
             : fmt::format("an object of Python's {}, not a tensor that checkpoints support; no code was run",
                           tree.names[unknown->name]);
}

std::string advice_for(const PickleTree& tree, PickleIndex value) {
  const auto* const unknown = tree.as<PickleUnknown>(value);
  const std::string name = unknown == nullptr ? "" : tree.names[unknown->name];
  const bool is_part = name.find("DTensor") != std::string::npos || name.find("ShardedTensor") != std::string::npos;
  return is_part
             ? "saving the result of get_model_state_dict() with StateDictOptions(full_state_dict=True), since this "
               "is one rank's part"
             : "saving tensors only";
}

Result<FoundDict> find_state_dict(const PickleTree& tree, const std::string& key, const InputFile& file) {
  const auto* const root = tree.as<PickleDict>(tree.root);
  if (root == nullptr) {
    return tree.as<PickleUnknown>(tree.root) != nullptr
               ? file.unusable("is " + describe(tree, tree.root), kSaveStateDict)
               : file.unusable("does not hold a dict", kSaveStateDict);
  }
  if (is_part_of_deepspeed(tree, *root)) {
    return file.unusable("is one rank's part of a DeepSpeed checkpoint",
                         "running the script zero_to_fp32.py in its folder, which writes one file");
  }
  const std::vector<NamedDict> dicts = dicts_in(tree, *root);
  const auto named = key.empty() ? dicts.end() : std::ranges::find(dicts, key, &NamedDict::path);
  if (named != dicts.end()) {
    return taken(tree, *named, {});
  }
  const auto is_tensor = [&](const auto& item) { return tree.as<PickleTensor>(item.second) != nullptr; };
  Result<FoundDict> found = std::ranges::all_of(root->items, is_tensor) ? FoundDict{root} : choose(tree, *root, file);
  if (key.empty() || (found && begins_a_name(tree, *found->dict, key + "."))) {
    return found;
  }
  return file.unusable(fmt::format("has neither a dict named {} nor keys that begin with {}.; it holds {}{}", key, key,
                                   keys_text(tree, *root), unknown_item(tree, *root, {key})),
                       "passing one of these as --key");
}

}  // namespace rollcall::checkpoint::interop
