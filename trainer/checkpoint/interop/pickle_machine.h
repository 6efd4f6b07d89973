#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trainer/checkpoint/interop/pickle.h"

namespace rollcall::checkpoint::interop {

/// The stack, marks and memo of a pickle machine (Python's Lib/pickletools.py describes it), and the values created so
/// far. Functions return false if the pickle is refused; failure() then has the reason.
class PickleMachine {
 public:
  /// `bytes`: size of the pickle, which limits how often shapes and keys of storages may be copied.
  explicit PickleMachine(std::size_t bytes);

  [[nodiscard]] const std::string& failure() const { return failure_; }

 protected:
  using Items = std::vector<PickleIndex>;

  bool refuse(std::string reason) {
    failure_ = std::move(reason);
    return false;
  }

  bool damaged() { return refuse("is damaged: its instructions do not fit together"); }

  bool push(PickleValue value);

  /// Pushes an existing value.
  bool push_again(PickleIndex value) {
    stack_.push_back(value);
    return true;
  }

  std::optional<PickleIndex> pop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) {
      return std::nullopt;
    }
    const PickleIndex top = stack_.back();
    stack_.pop_back();
    return top;
  }

  template <typename Action>
  bool with_top(Action action) {
    const auto top = pop();
    return top ? action(*top) : damaged();
  }

  /// Pops the two topmost values and passes them to `action`, the lower one first.
  template <typename Action>
  bool with_two(Action action) {
    const auto second = pop();
    const auto first = second ? pop() : std::nullopt;
    return first ? action(*first, *second) : damaged();
  }

  /// Pops the values since the last mark, and the mark, and passes them to `action`.
  template <typename Action>
  bool with_items(Action action) {
    if (marks_.empty()) {
      return damaged();
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    Items items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return action(std::move(items));
  }

  bool get(std::uint32_t memo) {
    const auto found = memo_.find(memo);
    return found != memo_.end() ? push_again(found->second)
                                : refuse("is damaged: it refers to a value that does not exist");
  }

  bool put(std::uint32_t memo) {
    if (stack_.empty()) {
      return damaged();
    }
    memo_[memo] = stack_.back();
    return true;
  }

  // Lists and dicts. Items that are added to an unknown value are dropped.

  bool tuple(std::size_t count) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) {
      return damaged();
    }
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    Items items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return push(PickleSequence{true, std::move(items)});
  }

  template <typename T>
  [[nodiscard]] T* top_as() {
    return stack_.empty() ? nullptr : std::get_if<T>(&tree_.values[stack_.back()]);
  }
  [[nodiscard]] bool top_is_unknown() { return top_as<PickleUnknown>() != nullptr; }

  bool append(const Items& items) {
    auto* const list = top_as<PickleSequence>();
    if (list == nullptr || list->is_tuple) {
      return top_is_unknown() || damaged();
    }
    list->items.insert(list->items.end(), items.begin(), items.end());
    return true;
  }

  bool set_items(const Items& items) {
    auto* const dict = top_as<PickleDict>();
    if (dict == nullptr || items.size() % 2 != 0) {
      return top_is_unknown() || damaged();
    }
    for (std::size_t i = 0; i < items.size(); i += 2) {
      dict->items.emplace_back(items[i], items[i + 1]);
    }
    return true;
  }

  /// Sets attributes of a dict, as state dicts have (`_metadata`), or of an unknown value; they are dropped.
  bool build(PickleIndex state) {
    const bool is_dict = tree_.as<PickleDict>(state) != nullptr && top_as<PickleDict>() != nullptr;
    return is_dict || top_is_unknown() ||
           refuse("sets attributes of an object that is not a state dict, which might run code; no code was run");
  }

  // Names and the values that are created with them.

  bool count_copy(std::size_t bytes);
  /// Pushes a value that is only named because Python would create it with this name.
  bool unknown(const std::string& name);
  bool global(const std::string& module, const std::string& name);
  bool global_of_texts(PickleIndex first, PickleIndex second);
  /// Does the same as reduce() with arguments that are not a value yet.
  bool make(PickleIndex callable, Items arguments);
  /// Emulates calling a known name with a tuple: creates a dict or a tensor. An unknown name gives an unknown value.
  bool reduce(PickleIndex callable, PickleIndex arguments);
  std::optional<std::vector<std::int64_t>> numbers(PickleIndex index) const;
  /// Arguments: storage, offset, shape, strides, requires_grad, backward hooks, and sometimes metadata.
  bool rebuild_tensor(const Items& arguments);
  /// Arguments: tensor, requires_grad, backward hooks, and sometimes attributes.
  bool rebuild_parameter(const Items& arguments);
  /// Arguments: function, type, the function's arguments, attributes. Creates tensors with attributes
  /// (torch.nn.Buffer), whose function is RebuildTensor, and unknown values for types whose elements are elsewhere
  /// (DTensor).
  bool rebuild_from_type(const Items& arguments);
  /// Creates a storage from torch's tuple ("storage", type, key, location, elements).
  bool persistent_id(PickleIndex id);

  std::optional<PickleTree> finish() {
    if (stack_.size() != 1 || !marks_.empty()) {
      refuse("is damaged: it does not end with one value");
      return std::nullopt;
    }
    tree_.root = stack_.front();
    return std::move(tree_);
  }

  Items stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint32_t, PickleIndex> memo_;

 private:
  PickleTree tree_;
  std::map<std::string, std::uint32_t> number_of_name_;  ///< index in PickleTree::names
  std::size_t may_copy_;                                 ///< remaining bytes
  std::string failure_;
};

}  // namespace rollcall::checkpoint::interop
