#include "trainer/checkpoint/format/content.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rollcall::checkpoint::format {

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

}  // namespace rollcall::checkpoint::format
