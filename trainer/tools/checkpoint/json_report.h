#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "trainer/checkpoint/format/content.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/statistics.h"

namespace rollcall::checkpoint_tool {

using Json = nlohmann::ordered_json;

// The objects of `--json`, described in docs/checkpoint_tool.md: the same thing has the same form in all commands.

/// {"name", "path", "dtype", "shape", "bytes", "crc32c"}
[[nodiscard]] Json tensor_json(const CheckpointTensor& tensor);
[[nodiscard]] Json value_json(const checkpoint::format::Value& value);
[[nodiscard]] Json statistics_json(const Statistics& statistics);
/// Numbers that are not finite are null.
[[nodiscard]] Json difference_json(const Difference& difference);

/// Prints {"schema": "rollcall-checkpoint/1", "command": ..., and what `content` has} on one line.
void print_json(std::ostream& out, std::string_view command, const Json& content);

}  // namespace rollcall::checkpoint_tool
