#include "trainer/tools/bench_collectives/operations.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace rollcall::bench_collectives {
namespace {

struct Named {
  std::string_view name;
  Operation operation;
};

constexpr std::array kOperations{Named{"all_reduce", Operation::AllReduce},
                                 Named{"reduce_scatter", Operation::ReduceScatter},
                                 Named{"all_gather", Operation::AllGather}, Named{"broadcast", Operation::Broadcast},
                                 Named{"all_to_all", Operation::AllToAll}};

}  // namespace

std::optional<Operation> find_operation(std::string_view name) {
  for (const Named& known : kOperations) {
    if (known.name == name) {
      return known.operation;
    }
  }
  return std::nullopt;
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const Named& known : kOperations) {
    names.emplace_back(known.name);
  }
  return names;
}

double bus_factor(Operation operation, std::uint32_t world_size) {
  const double share = static_cast<double>(world_size - 1) / world_size;
  switch (operation) {
    case Operation::AllReduce:
      return 2 * share;
    case Operation::Broadcast:
      return 1;
    default:
      return share;
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace rollcall::bench_collectives
