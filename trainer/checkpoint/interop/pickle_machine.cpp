#include "trainer/checkpoint/interop/pickle_machine.h"

#include <string_view>

namespace rollcall::checkpoint::interop {
namespace {

constexpr std::size_t kMostValues = 4'000'000;  ///< about 200,000 tensors
// Tuples and texts can be referenced many times, so the size and number of their copies are limited.
constexpr std::size_t kMostDimensions = 64;  ///< as in PyTorch
constexpr std::size_t kLongestKey = 255;     ///< of a storage; torch.save counts from 0
constexpr std::size_t kLongestName = 200;    ///< of unknown values
constexpr std::size_t kMostNames = 10'000;   ///< of unknown values
constexpr std::size_t kCopiedPerByte = 16;   ///< of the pickle, where a number of a shape takes at least two bytes

std::optional<PickleGlobal> known_global(const std::string& module, const std::string& name) {
  if (module == "collections" && name == "OrderedDict") {
    return PickleGlobal{PickleName::OrderedDict};
  }
  if (module == "torch._utils" && name == "_rebuild_tensor_v2") {
    return PickleGlobal{PickleName::RebuildTensor};
  }
  if (module == "torch._utils" && (name == "_rebuild_parameter" || name == "_rebuild_parameter_with_state")) {
    return PickleGlobal{PickleName::RebuildParameter};
  }
  if (module == "torch._tensor" && name == "_rebuild_from_type_v2") {
    return PickleGlobal{PickleName::RebuildFromType};
  }
  const auto dtype = module == "torch" ? format::dtype_from_name(name, &format::DTypeRow::storage) : std::nullopt;
  return dtype ? std::optional(PickleGlobal{PickleName::StorageType, *dtype}) : std::nullopt;
}

}  // namespace

PickleMachine::PickleMachine(std::size_t bytes) : may_copy_(kCopiedPerByte * bytes) {}

bool PickleMachine::push(PickleValue value) {
  if (tree_.values.size() >= kMostValues) {
    return refuse("holds too many values for a state dict");
  }
  stack_.push_back(static_cast<PickleIndex>(tree_.values.size()));
  tree_.values.push_back(std::move(value));
  return true;
}

bool PickleMachine::count_copy(std::size_t bytes) {
  if (bytes > may_copy_) {
    return refuse("refers to one shape or storage too often");
  }
  may_copy_ -= bytes;
  return true;
}

bool PickleMachine::unknown(const std::string& name) {
  const auto number = number_of_name_.emplace(name.substr(0, kLongestName), tree_.names.size());
  if (number.second) {
    tree_.names.push_back(number.first->first);
  }
  return tree_.names.size() <= kMostNames ? push(PickleUnknown{number.first->second})
                                          : refuse("refers to too many classes for a state dict");
}

bool PickleMachine::global(const std::string& module, const std::string& name) {
  const auto known = known_global(module, name);
  return known ? push(*known) : unknown(module + "." + name);
}

bool PickleMachine::global_of_texts(PickleIndex first, PickleIndex second) {
  const auto* const module = tree_.as<std::string>(first);
  const auto* const name = tree_.as<std::string>(second);
  // Texts can be referenced many times.
  const bool sound =
      module != nullptr && name != nullptr && module->size() <= kLongestName && name->size() <= kLongestName;
  return sound ? global(std::string(*module), std::string(*name)) : refuse("is damaged: a name is not a string");
}

bool PickleMachine::make(PickleIndex callable, Items arguments) {
  return push(PickleSequence{true, std::move(arguments)}) && reduce(callable, pop().value());
}

bool PickleMachine::reduce(PickleIndex callable, PickleIndex arguments) {
  if (const auto* const name = tree_.as<PickleUnknown>(callable)) {
    return push(PickleUnknown(*name));
  }
  const auto* const global = tree_.as<PickleGlobal>(callable);
  const auto* const tuple = tree_.as<PickleSequence>(arguments);
  if (global == nullptr || tuple == nullptr || !tuple->is_tuple) {
    return refuse("is damaged: it calls an object that is not callable");
  }
  switch (const PickleGlobal known = *global; known.name) {
    case PickleName::OrderedDict:
      return tuple->items.empty() ? push(PickleDict{}) : unknown("collections.OrderedDict");
    case PickleName::RebuildTensor:
      return rebuild_tensor(tuple->items);
    case PickleName::RebuildParameter:
      return rebuild_parameter(tuple->items);
    case PickleName::RebuildFromType:
      return rebuild_from_type(tuple->items);
    case PickleName::StorageType:
      return unknown("torch." + std::string(format::dtype_row(known.dtype).storage));
  }
  return damaged();
}

std::optional<std::vector<std::int64_t>> PickleMachine::numbers(PickleIndex index) const {
  const auto* const tuple = tree_.as<PickleSequence>(index);
  if (tuple == nullptr || tuple->items.size() > kMostDimensions) {
    return std::nullopt;
  }
  std::vector<std::int64_t> found;
  for (const PickleIndex item : tuple->items) {
    const auto* const number = tree_.as<std::int64_t>(item);
    if (number == nullptr) {
      return std::nullopt;
    }
    found.push_back(*number);
  }
  return found;
}

bool PickleMachine::rebuild_tensor(const Items& arguments) {
  if (const auto* const of = arguments.empty() ? nullptr : tree_.as<PickleUnknown>(arguments[0])) {
    return push(PickleUnknown(*of));
  }
  if (arguments.size() < 4 || tree_.as<PickleStorage>(arguments[0]) == nullptr) {
    return refuse("is damaged: a tensor lacks its storage");
  }
  const auto* const offset = tree_.as<std::int64_t>(arguments[1]);
  auto shape = numbers(arguments[2]);
  auto strides = numbers(arguments[3]);
  if (offset == nullptr || !shape || !strides || shape->size() != strides->size()) {
    return refuse("is damaged: a tensor lacks its shape");
  }
  const auto* const metadata = arguments.size() > 6 ? tree_.as<PickleDict>(arguments[6]) : nullptr;
  if (metadata != nullptr && !metadata->items.empty()) {
    return unknown("torch.Tensor with metadata");  // "neg": its elements are to be negated
  }
  return count_copy(2 * shape->size() * sizeof(std::int64_t)) &&
         push(PickleTensor{arguments[0], *offset, std::move(*shape), std::move(*strides)});
}

bool PickleMachine::rebuild_parameter(const Items& arguments) {
  const bool is_value = !arguments.empty() && (tree_.as<PickleTensor>(arguments[0]) != nullptr ||
                                               tree_.as<PickleUnknown>(arguments[0]) != nullptr);
  if (!is_value) {
    return refuse("is damaged: a parameter lacks its tensor");
  }
  stack_.push_back(arguments[0]);
  return true;
}

bool PickleMachine::rebuild_from_type(const Items& arguments) {
  const auto* const function = arguments.size() < 3 ? nullptr : tree_.as<PickleGlobal>(arguments[0]);
  const auto* const tuple = arguments.size() < 3 ? nullptr : tree_.as<PickleSequence>(arguments[2]);
  if (function != nullptr && function->name == PickleName::RebuildTensor && tuple != nullptr) {
    return rebuild_tensor(tuple->items);
  }
  const auto* const type = arguments.size() < 3 ? nullptr : tree_.as<PickleUnknown>(arguments[1]);
  return type != nullptr ? push(PickleUnknown(*type)) : unknown("torch._tensor._rebuild_from_type_v2");
}

bool PickleMachine::persistent_id(PickleIndex id) {
  const auto* const tuple = tree_.as<PickleSequence>(id);
  if (tuple == nullptr || tuple->items.size() < 5) {
    return refuse("is damaged: a storage is not described as torch.save describes it");
  }
  if (const auto* const type = tree_.as<PickleUnknown>(tuple->items[1])) {
    return push(PickleUnknown(*type));
  }
  const auto* const kind = tree_.as<std::string>(tuple->items[0]);
  const auto* const type = tree_.as<PickleGlobal>(tuple->items[1]);
  const auto* const key = tree_.as<std::string>(tuple->items[2]);
  const auto* const elements = tree_.as<std::int64_t>(tuple->items[4]);
  const bool sound = kind != nullptr && *kind == "storage" && type != nullptr && key != nullptr &&
                     key->size() <= kLongestKey && type->name == PickleName::StorageType && elements != nullptr &&
                     *elements >= 0;
  return sound ? count_copy(key->size()) && push(PickleStorage{*key, type->dtype, *elements})
               : refuse("is damaged: a storage is not described as torch.save describes it");
}

}  // namespace rollcall::checkpoint::interop
