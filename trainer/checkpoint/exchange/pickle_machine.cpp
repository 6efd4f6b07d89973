#include "trainer/checkpoint/exchange/pickle_machine.h"

#include <string_view>

namespace rollcall::checkpoint::exchange {
namespace {

constexpr std::size_t kMostValues = 4'000'000;  ///< some 200,000 tensors
// Tuples and texts can be referred to again and again: what is copied of them must be short, and not without end.
constexpr std::size_t kMostDimensions = 64;  ///< as in PyTorch
constexpr std::size_t kLongestKey = 255;     ///< of a storage; torch.save counts from 0
constexpr std::size_t kLongestName = 200;    ///< of what is unknown
constexpr std::size_t kMostNames = 10'000;   ///< of what is unknown
constexpr std::size_t kCopiedPerByte = 16;   ///< of the pickle; a number of a shape takes two bytes there at least

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
  const auto dtype = module == "torch" ? dtype_of_storage(name) : std::nullopt;
  return dtype ? std::optional(PickleGlobal{PickleName::StorageType, *dtype}) : std::nullopt;
}

}  // namespace

PickleMachine::PickleMachine(std::size_t bytes) : may_copy_(kCopiedPerByte * bytes) {}

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

bool PickleMachine::count_copy(std::size_t bytes) {
  if (bytes > may_copy_) {
    return refuse("refers to one shape or storage too often");
  }
  may_copy_ -= bytes;
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

bool PickleMachine::put_next() { return put(static_cast<std::uint32_t>(memo_.size())); }

bool PickleMachine::drop_one() { return pop() ? true : refuse("is damaged: its stack is empty"); }

bool PickleMachine::drop_since_mark() { return pop_to_mark() ? true : refuse("is damaged: it lacks a mark"); }

bool PickleMachine::duplicate() {
  const auto top = pop();
  if (!top) {
    return refuse("is damaged: its stack is empty");
  }
  stack_.insert(stack_.end(), 2, *top);
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
  if (!stack_.empty() && tree_.as<PickleUnknown>(stack_.back()) != nullptr) {
    return true;
  }
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
  if (!stack_.empty() && tree_.as<PickleUnknown>(stack_.back()) != nullptr) {
    return true;
  }
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

bool PickleMachine::add_items_since_mark() {
  const auto items = pop_to_mark();
  const bool is_set = items && !stack_.empty() && tree_.as<PickleUnknown>(stack_.back()) != nullptr;
  return is_set || refuse("is damaged: a set lacks its mark");
}

bool PickleMachine::unknown(const std::string& name) {
  const auto number = number_of_name_.emplace(name.substr(0, kLongestName), tree_.names.size());
  if (number.second) {
    tree_.names.push_back(number.first->first);
  }
  return tree_.names.size() <= kMostNames ? push(PickleUnknown{number.first->second})
                                          : refuse("speaks of too many classes for a state dict");
}

bool PickleMachine::unknown_since_mark(const std::string& name) {
  return pop_to_mark() ? unknown(name) : refuse("is damaged: it lacks a mark");
}

bool PickleMachine::global(const std::string& module, const std::string& name) {
  const auto known = known_global(module, name);
  return known ? push(*known) : unknown(module + "." + name);
}

bool PickleMachine::global_of_texts() {
  const auto second = pop();
  const auto first = second ? pop() : std::nullopt;
  const auto* const module = first ? tree_.as<std::string>(*first) : nullptr;
  const auto* const name = second ? tree_.as<std::string>(*second) : nullptr;
  // Texts can be referred to again and again.
  if (module == nullptr || name == nullptr || module->size() > kLongestName || name->size() > kLongestName) {
    return refuse("is damaged: a name is no text");
  }
  return global(*module, *name);
}

bool PickleMachine::reduce() {
  const auto arguments = pop();
  const auto callable = arguments ? pop() : std::nullopt;
  if (const auto* const name = callable ? tree_.as<PickleUnknown>(*callable) : nullptr) {
    return push(PickleUnknown(*name));
  }
  const auto* const global = callable ? tree_.as<PickleGlobal>(*callable) : nullptr;
  const auto* const tuple = arguments ? tree_.as<PickleSequence>(*arguments) : nullptr;
  if (global == nullptr || tuple == nullptr || !tuple->is_tuple) {
    return refuse("is damaged: it calls what cannot be called");
  }
  return call(*global, tuple->items);
}

bool PickleMachine::reduce_with_names() { return drop_one() && reduce(); }

bool PickleMachine::object_since_mark() {
  const auto items = pop_to_mark();
  if (!items || items->empty()) {
    return refuse("is damaged: an object lacks its class");
  }
  stack_.push_back(items->front());
  return push(PickleSequence{true, {items->begin() + 1, items->end()}}) && reduce();
}

bool PickleMachine::object_since_mark(const std::string& module, const std::string& name) {
  auto items = pop_to_mark();
  return items ? global(module, name) && push(PickleSequence{true, std::move(*items)}) && reduce()
               : refuse("is damaged: an object lacks its mark");
}

bool PickleMachine::call(const PickleGlobal& known, const std::vector<PickleIndex>& arguments) {
  switch (known.name) {
    case PickleName::OrderedDict:
      return arguments.empty() ? push(PickleDict{}) : unknown("collections.OrderedDict");
    case PickleName::RebuildTensor:
      return rebuild_tensor(arguments);
    case PickleName::RebuildParameter:
      return rebuild_parameter(arguments);
    case PickleName::RebuildFromType:
      return rebuild_from_type(arguments);
    case PickleName::StorageType:
      break;
  }
  return unknown("torch." + std::string(storage_name(known.dtype)));
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

/// Arguments: tensor, requires_grad, backward hooks, and sometimes attributes.
bool PickleMachine::rebuild_parameter(const std::vector<PickleIndex>& arguments) {
  const bool is_value = !arguments.empty() && (tree_.as<PickleTensor>(arguments[0]) != nullptr ||
                                               tree_.as<PickleUnknown>(arguments[0]) != nullptr);
  if (!is_value) {
    return refuse("is damaged: a parameter lacks its tensor");
  }
  stack_.push_back(arguments[0]);
  return true;
}

/// Arguments: function, type, the function's arguments, attributes. Of tensors with attributes (torch.nn.Buffer), whose
/// function is RebuildTensor, and of other types with elements elsewhere (DTensor).
bool PickleMachine::rebuild_from_type(const std::vector<PickleIndex>& arguments) {
  const auto* const function = arguments.size() < 3 ? nullptr : tree_.as<PickleGlobal>(arguments[0]);
  const auto* const tuple = arguments.size() < 3 ? nullptr : tree_.as<PickleSequence>(arguments[2]);
  if (function != nullptr && function->name == PickleName::RebuildTensor && tuple != nullptr) {
    return rebuild_tensor(tuple->items);
  }
  const auto* const type = arguments.size() < 3 ? nullptr : tree_.as<PickleUnknown>(arguments[1]);
  return type != nullptr ? push(PickleUnknown(*type)) : unknown("torch._tensor._rebuild_from_type_v2");
}

bool PickleMachine::persistent_id() {
  const auto top = pop();
  const auto* const tuple = top ? tree_.as<PickleSequence>(*top) : nullptr;
  if (tuple == nullptr || tuple->items.size() < 5) {
    return refuse("is damaged: a storage is not described as torch.save does");
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
               : refuse("is damaged: a storage is not described as torch.save does");
}

bool PickleMachine::build() {
  const auto state = pop();
  const bool has_target = state && !stack_.empty();
  const bool is_dict =
      has_target && tree_.as<PickleDict>(*state) != nullptr && tree_.as<PickleDict>(stack_.back()) != nullptr;
  return is_dict || (has_target && tree_.as<PickleUnknown>(stack_.back()) != nullptr) ||
         refuse("sets attributes of what is no state dict, which might run code; nothing was run");
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
