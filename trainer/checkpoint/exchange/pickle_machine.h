#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/exchange/pickle.h"

namespace rollcall::checkpoint::exchange {

/// The stack, the marks and the memo of a pickle machine, and the values made so far (Python's pickletools.py describes
/// it). Its functions are the instructions without their operands; each gives false where the pickle is refused, and
/// failure() then says why.
class PickleMachine {
 public:
  /// For a pickle of so many bytes, in proportion to which shapes and keys of storages may be copied.
  explicit PickleMachine(std::size_t bytes);

  [[nodiscard]] const std::string& failure() const { return failure_; }
  bool refuse(std::string reason);

  bool push(PickleValue value);
  bool push_mark();
  bool get(std::uint32_t memo);
  bool put(std::uint32_t memo);
  /// The same, as the memo's next number.
  bool put_next();
  /// A tuple of the `count` topmost values.
  bool tuple(std::size_t count);
  /// A tuple of all values since the last mark.
  bool tuple_since_mark();
  /// Appends to the list below: the topmost value, or all since the last mark.
  bool append_one();
  bool append_since_mark();
  /// Sets items of the dict below: the two topmost values, or all pairs since the last mark.
  bool set_one_item();
  bool set_items_since_mark();
  bool global(const std::string& module, const std::string& name);
  /// The same, of the two topmost texts.
  bool global_of_texts();
  /// A value that is only named: Python makes it with this.
  bool unknown(const std::string& name);
  /// Calls a known name with a tuple, in effect: makes a dict or a tensor. Of an unknown name, an unknown value.
  bool reduce();
  /// The same with a dict of named arguments above the tuple.
  bool reduce_with_names();
  /// The same of a class that lies with its arguments above the last mark, or that has them there.
  bool object_since_mark();
  bool object_since_mark(const std::string& module, const std::string& name);
  /// Takes off the topmost value, or all since the last mark and the mark itself; gives the topmost value once more.
  bool drop_one();
  bool drop_since_mark();
  bool duplicate();
  /// A storage, from torch's tuple ("storage", type, key, location, elements).
  bool persistent_id();
  /// Attributes of a dict, as state dicts carry (`_metadata`), and of what is unknown: dropped.
  bool build();
  /// Items of a set, which is unknown: dropped.
  bool add_items_since_mark();
  /// An unknown value of all since the last mark.
  bool unknown_since_mark(const std::string& name);

  /// The tree, whose root is the only value on the stack. Call it at the end; nothing works after it.
  [[nodiscard]] std::optional<PickleTree> finish();

 private:
  bool count_copy(std::size_t bytes);
  std::optional<PickleIndex> pop();
  /// The values since the last mark, which are taken off together with it.
  std::optional<std::vector<PickleIndex>> pop_to_mark();
  bool append(const std::vector<PickleIndex>& items);
  bool set_items(const std::vector<PickleIndex>& items);
  bool call(const PickleGlobal& known, const std::vector<PickleIndex>& arguments);
  bool rebuild_tensor(const std::vector<PickleIndex>& arguments);
  bool rebuild_parameter(const std::vector<PickleIndex>& arguments);
  bool rebuild_from_type(const std::vector<PickleIndex>& arguments);
  std::optional<std::vector<std::int64_t>> numbers(PickleIndex tuple) const;

  PickleTree tree_;
  std::vector<PickleIndex> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint32_t, PickleIndex> memo_;
  std::map<std::string, std::uint32_t> number_of_name_;  ///< in PickleTree::names
  std::size_t may_copy_;                                 ///< bytes
  std::string failure_;
};

}  // namespace rollcall::checkpoint::exchange
