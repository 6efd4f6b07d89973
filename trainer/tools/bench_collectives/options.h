#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::bench_collectives {

enum class Request { Measure, Help, Version };

struct Options {
  Request request = Request::Measure;
  bool json = false;
  std::vector<std::string> backends{};    ///< measured in turn, so that they meet the same noise
  std::vector<std::string> operations{};  ///< names of operations.h
  std::int64_t min_bytes = 0, max_bytes = 0, factor = 2;
  int iterations = 0, warm_up = 0;
  settings::Settings launch;
};

/// `arguments` lacks the program's own name. Errors (Usage), and those of the layers of launch settings.
[[nodiscard]] Result<Options> read_options(const Environment& environment, const std::vector<std::string>& arguments);

[[nodiscard]] std::string help_text();

}  // namespace rollcall::bench_collectives
