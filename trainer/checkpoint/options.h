#pragma once

#include <string>

#include "trainer/checkpoint/format/options.h"
#include "trainer/checkpoint/format/retention.h"

namespace rollcall::checkpoint {

using format::Retention;

/// From which checkpoint a training goes on.
struct LoadOptions {
  /// "never" (nothing happens), "auto" (the newest sound checkpoint of `folder`, or nothing where there is none) or the
  /// path of a checkpoint
  std::string resume = "auto";
  std::string folder{};
  /// "auto": other users' checkpoints in `folder` do not count; else they are refused
  bool passes_over_others = false;
  format::VerifyLevel verify = format::VerifyLevel::Full;  ///< how much of what is loaded is checked
};

}  // namespace rollcall::checkpoint
