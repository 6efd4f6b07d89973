#pragma once

#include <cstdint>
#include <string>

namespace rollcall::process_group {

/// One collective as this rank issued it. Knows nothing of tensors.
struct CollectiveCall {
  std::uint64_t number = 0;  ///< among the group's collectives on this rank, from 1
  std::string operation;     ///< "all-reduce"
  std::string type;          ///< of the elements: "float32"
  std::string sizes;         ///< "[64, 3, 7, 7]"; empty where ranks may differ in them
  std::string details;       ///< "sum", "root 0", or empty
  std::int64_t bytes = 0;    ///< of this rank's input
};

/// What every rank must call alike, and without the number: "all-reduce of float32 [64, 3, 7, 7], sum".
[[nodiscard]] std::string signature(const CollectiveCall& call);

/// For people: "all-reduce 41 (float32 [64, 3, 7, 7], sum, 37.6 kB)".
[[nodiscard]] std::string to_text(const CollectiveCall& call);

}  // namespace rollcall::process_group
