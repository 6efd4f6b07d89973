#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::bench_collectives {

enum class Operation { AllReduce, ReduceScatter, AllGather, Broadcast, AllToAll };

[[nodiscard]] std::optional<Operation> find_operation(std::string_view name);
[[nodiscard]] std::vector<std::string> operation_names();

/// What a rank must send at least, as a part of the bytes of its larger buffer: nccl-tests' doc/PERFORMANCE.md.
[[nodiscard]] double bus_factor(Operation operation, std::uint32_t world_size);

[[nodiscard]] double median(std::vector<double> values);

}  // namespace rollcall::bench_collectives
