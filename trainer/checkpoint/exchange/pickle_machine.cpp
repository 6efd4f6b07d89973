#include "trainer/checkpoint/exchange/pickle_machine.h"

#include <string_view>

namespace rollcall::checkpoint::exchange {
namespace {

constexpr std::size_t kMostValues = 4'000'000;  ///< some 200,000 tensors
// Tuples and texts can be referred to again and again: what is copied of them must be short.
constexpr std::size_t kMostDimensions = 64;  ///< as in PyTorch
constexpr std::size_t kLongestKey = 255;     ///< of a storage; torch.save counts from 0

std::optional<PickleGlobal> known_global(const std::string& module, const std::string& name) {
  if (module == "collections" && name == "OrderedDict") {
    return PickleGlobal{PickleName::OrderedDict};
  }
  if (module == "torch._utils" && name == "_rebuild_tensor_v2") {
    return PickleGlobal{PickleName::RebuildTensor};
  }
  if (module == "torch._utils" && name == "_rebuild_parameter") {
    return PickleGlobal{PickleName::RebuildParameter};
  }
  const auto dtype = module == "torch" ? dtype_of_storage(name) : std::nullopt;
  return dtype ? std::optional(PickleGlobal{PickleName::StorageType, *dtype}) : std::nullopt;
}

}  // namespace

bool PickleMachine::refuse(std::string reason) {
  failure_ = std::move(reason);
  return false;
}

bool PickleMachine::push(PickleValue value) {
  if (tree_.values.size() >= kMostValues) {
    return refuse("holds too many values for a state dict");
  }
  stack_.push_back(static_cast<PickleIndex>(tree_.values.size()));
  tree_.values.push_back(std::move(value));
  return true;
}

bool PickleMachine::push_mark() {
  marks_.push_back(stack_.size());
  return true;
}

std::optional<PickleIndex> PickleMachine::pop() {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) {
    return std::nullopt;
  }
  const PickleIndex top = stack_.back();
  stack_.pop_back();
  return top;
}

std::optional<std::vector<PickleIndex>> PickleMachine::pop_to_mark() {
  if (marks_.empty()) {
    return std::nullopt;
  }
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleIndex> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

bool PickleMachine::get(std::uint32_t memo) {
  const auto found = memo_.find(memo);
  if (found == memo_.end()) {
    return refuse("is damaged: it refers to a value that is not there");
  }
  stack_.push_back(found->second);
  return true;
}

bool PickleMachine::put(std::uint32_t memo) {
  if (stack_.empty()) {
    return refuse("is damaged: its stack is empty");
  }
  memo_[memo] = stack_.back();
  return true;
}

bool PickleMachine::tuple(std::size_t count) {
  std::vector<PickleIndex> items(count);
  for (std::size_t i = count; i-- > 0;) {
    const auto item = pop();
    if (!item) {
      return refuse("is damaged: a tuple lacks its values");
    }
    items[i] = *item;
  }
  return push(PickleSequence{true, std::move(items)});
}

bool PickleMachine::tuple_since_mark() {
  auto items = pop_to_mark();
  return items ? push(PickleSequence{true, std::move(*items)}) : refuse("is damaged: a tuple lacks its mark");
}

bool PickleMachine::append(const std::vector<PickleIndex>& items) {
  auto* const list = stack_.empty() ? nullptr : std::get_if<PickleSequence>(&tree_.values[stack_.back()]);
  if (list == nullptr || list->is_tuple) {
    return refuse("is damaged: it appends to what is no list");
  }
  list->items.insert(list->items.end(), items.begin(), items.end());
  return true;
}

bool PickleMachine::append_one() {
  const auto item = pop();
  return item ? append({*item}) : refuse("is damaged: its stack is empty");
}

bool PickleMachine::append_since_mark() {
  const auto items = pop_to_mark();
  return items ? append(*items) : refuse("is damaged: a list lacks its mark");
}

bool PickleMachine::set_items(const std::vector<PickleIndex>& items) {
  auto* const dict = stack_.empty() ? nullptr : std::get_if<PickleDict>(&tree_.values[stack_.back()]);
  if (dict == nullptr || items.size() % 2 != 0) {
    return refuse("is damaged: it sets items of what is no dict");
  }
  for (std::size_t i = 0; i < items.size(); i += 2) {
    dict->items.emplace_back(items[i], items[i + 1]);
  }
  return true;
}

bool PickleMachine::set_one_item() {
  const auto value = pop();
  const auto key = value ? pop() : std::nullopt;
  return key ? set_items({*key, *value}) : refuse("is damaged: its stack is empty");
}

bool PickleMachine::set_items_since_mark() {
  const auto items = pop_to_mark();
  return items ? set_items(*items) : refuse("is damaged: a dict lacks its mark");
}

bool PickleMachine::global(const std::string& module, const std::string& name) {
  const auto known = known_global(module, name);
  return known ? push(*known)
               : refuse("wants Python's " + module + "." + name +
                        ", which is no part of a state dict and might run code; nothing was run");
}

bool PickleMachine::reduce() {
  const auto arguments = pop();
  const auto callable = arguments ? pop() : std::nullopt;
  const auto* const global = callable ? tree_.as<PickleGlobal>(*callable) : nullptr;
  const auto* const tuple = arguments ? tree_.as<PickleSequence>(*arguments) : nullptr;
  if (global == nullptr || tuple == nullptr || !tuple->is_tuple) {
    return refuse("is damaged: it calls what cannot be called");
  }
  switch (global->name) {
    case PickleName::OrderedDict:
      return tuple->items.empty() ? push(PickleDict{})
                                  : refuse("makes an OrderedDict in a way that torch.save does not");
    case PickleName::RebuildTensor:
      return rebuild_tensor(tuple->items);
    case PickleName::RebuildParameter:
      if (tuple->items.empty() || tree_.as<PickleTensor>(tuple->items.front()) == nullptr) {
        return refuse("is damaged: a parameter lacks its tensor");
      }
      stack_.push_back(tuple->items.front());
      return true;
    case PickleName::StorageType:
      break;
  }
  return refuse("is damaged: it calls what cannot be called");
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

/// Arguments: storage, offset, shape, strides, requires_grad, backward hooks, and sometimes metadata.
bool PickleMachine::rebuild_tensor(const std::vector<PickleIndex>& arguments) {
  if (arguments.size() < 4 || tree_.as<PickleStorage>(arguments[0]) == nullptr) {
    return refuse("is damaged: a tensor lacks its storage");
  }
  const auto* const offset = tree_.as<std::int64_t>(arguments[1]);
  auto shape = numbers(arguments[2]);
  auto strides = numbers(arguments[3]);
  if (offset == nullptr || !shape || !strides || shape->size() != strides->size()) {
    return refuse("is damaged: a tensor lacks its shape");
  }
  return push(PickleTensor{arguments[0], *offset, std::move(*shape), std::move(*strides)});
}

bool PickleMachine::persistent_id() {
  const auto top = pop();
  const auto* const tuple = top ? tree_.as<PickleSequence>(*top) : nullptr;
  if (tuple == nullptr || tuple->items.size() < 5) {
    return refuse("is damaged: a storage is not described as torch.save does");
  }
  const auto* const kind = tree_.as<std::string>(tuple->items[0]);
  const auto* const type = tree_.as<PickleGlobal>(tuple->items[1]);
  const auto* const key = tree_.as<std::string>(tuple->items[2]);
  const auto* const elements = tree_.as<std::int64_t>(tuple->items[4]);
  const bool sound = kind != nullptr && *kind == "storage" && type != nullptr && key != nullptr &&
                     key->size() <= kLongestKey && type->name == PickleName::StorageType && elements != nullptr &&
                     *elements >= 0;
  return sound ? push(PickleStorage{*key, type->dtype, *elements})
               : refuse("is damaged: a storage is not described as torch.save does");
}

bool PickleMachine::build() {
  const auto state = pop();
  const bool is_dict = state && !stack_.empty() && tree_.as<PickleDict>(*state) != nullptr &&
                       tree_.as<PickleDict>(stack_.back()) != nullptr;
  return is_dict || refuse("sets attributes of what is no state dict, which might run code; nothing was run");
}

std::optional<PickleTree> PickleMachine::finish() {
  if (stack_.size() != 1 || !marks_.empty()) {
    refuse("is damaged: it does not end with one value");
    return std::nullopt;
  }
  tree_.root = stack_.front();
  return std::move(tree_);
}

}  // namespace rollcall::checkpoint::exchange
