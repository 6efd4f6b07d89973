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

namespace rollcall::checkpoint::interop {

/// The content of a pickle of tensors. Values refer to each other by their index in PickleTree::values, so that values
/// that contain each other cannot make a reader loop unless it follows indices without a limit.
using PickleIndex = std::uint32_t;

/// The names that are understood. Each is data; nothing is ever imported or called.
enum class PickleName { OrderedDict, RebuildTensor, RebuildParameter, RebuildFromType, StorageType };

struct PickleGlobal {
  PickleName name = PickleName::OrderedDict;
  format::DType dtype = format::DType::Float32;  ///< of a StorageType
};
/// A name that is not understood, or a value that Python would have created with one: an argparse.Namespace, a NumPy
/// number, an object of any class. Only the name is kept.
struct PickleUnknown {
  std::uint32_t name = 0;  ///< its number in PickleTree::names
};
struct PickleSequence {
  bool is_tuple = false;
  std::vector<PickleIndex> items;
};
struct PickleDict {
  std::vector<std::pair<PickleIndex, PickleIndex>> items;  ///< in the pickle's order; the last of equal keys counts
};
/// The elements of one or several tensors: the member "data/<key>" of the archive.
struct PickleStorage {
  std::string key;
  format::DType dtype = format::DType::Float32;
  std::int64_t elements = 0;
};
/// A view of a storage; offset and strides count elements. They are unchecked values of the pickle.
struct PickleTensor {
  PickleIndex storage = 0;  ///< index of a PickleStorage
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< as many as dimensions
};

/// monostate is None.
using PickleValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, PickleGlobal, PickleUnknown,
                                 PickleSequence, PickleDict, PickleStorage, PickleTensor>;

struct PickleTree {
  std::vector<PickleValue> values;
  std::vector<std::string> names;  ///< "argparse.Namespace": names of unknown values
  PickleIndex root = 0;

  template <typename T>
  [[nodiscard]] const T* as(PickleIndex index) const {
    return std::get_if<T>(&values[index]);
  }
  /// Returns the value of a text key, or null.
  [[nodiscard]] const PickleIndex* find(const PickleDict& dict, std::string_view key) const;
};

/// Reads a pickle of protocol 2 to 5 as torch.save writes it for dicts, lists and tuples of tensors, numbers and texts.
/// It interprets data only: an instruction that would call anything except the names above, and so might run code when
/// Python loads it, gives a PickleUnknown, and its items are dropped.
///
/// Needs time and memory in proportion to `bytes`, of which 32 MiB are accepted. Errors (BadData) have `path` as value
/// and name the instruction that is refused. Pure.
[[nodiscard]] Result<PickleTree> read_pickle(std::span<const std::byte> bytes, const std::string& path);

}  // namespace rollcall::checkpoint::interop
