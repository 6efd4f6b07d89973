#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint::exchange {

/// What a pickle of tensors is made of. Values are told by their index in PickleTree::values, so that a pickle whose
/// values contain each other cannot send a reader round in circles unless the reader follows indices without end.
using PickleIndex = std::uint32_t;

/// The names that are understood. Each is data; nothing is ever imported or called.
enum class PickleName { OrderedDict, RebuildTensor, RebuildParameter, RebuildFromType, StorageType };

struct PickleGlobal {
  PickleName name = PickleName::OrderedDict;
  format::DType dtype = format::DType::Float32;  ///< of a StorageType
};
/// A name that is not understood, or a value that Python would have made with one: an argparse.Namespace, a number of
/// NumPy's, an object of any class. Nothing of it is kept but whose it is.
struct PickleUnknown {
  std::uint32_t name = 0;  ///< its number in PickleTree::names
};
struct PickleSequence {
  bool is_tuple = false;
  std::vector<PickleIndex> items;
};
struct PickleDict {
  std::vector<std::pair<PickleIndex, PickleIndex>> items;  ///< in the pickle's order; of equal keys the last counts
};
/// The elements of one or several tensors: the member "data/<key>" of the archive.
struct PickleStorage {
  std::string key;
  format::DType dtype = format::DType::Float32;
  std::int64_t elements = 0;
};
/// A window into a storage; offset and strides count elements and are as the pickle tells them, checked by nobody.
struct PickleTensor {
  PickleIndex storage = 0;  ///< of a PickleStorage
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< as many as dimensions
};

/// monostate is None.
using PickleValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, PickleGlobal, PickleUnknown,
                                 PickleSequence, PickleDict, PickleStorage, PickleTensor>;

struct PickleTree {
  std::vector<PickleValue> values;
  std::vector<std::string> names;  ///< "argparse.Namespace", of what is unknown
  PickleIndex root = 0;

  template <typename T>
  [[nodiscard]] const T* as(PickleIndex index) const {
    return std::get_if<T>(&values[index]);
  }
  /// The value of a text key, or null.
  [[nodiscard]] const PickleIndex* find(const PickleDict& dict, std::string_view key) const;
};

/// Reads a pickle of protocol 2 to 5 as torch.save writes it for dicts, lists and tuples of tensors, numbers and texts.
/// It is an interpreter of data only: what would call anything but the names above, and so might run code when Python
/// loads it, gives a PickleUnknown, and what is put into that is dropped.
///
/// Takes time and memory in proportion to `bytes`, of which 32 MiB are accepted. Errors (BadData) have `path` as value
/// and name the instruction that is refused. Pure.
[[nodiscard]] Result<PickleTree> read_pickle(std::span<const std::byte> bytes, const std::string& path);

}  // namespace rollcall::checkpoint::exchange
