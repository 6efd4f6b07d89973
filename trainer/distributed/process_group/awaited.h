#pragma once

namespace rollcall::process_group {

/// Options of a collective whose caller waits at once: the back end may let the waiting thread do the work, instead of
/// waking one of its own. As dist.all_reduce() of PyTorch asks by default.
template <typename Options>
[[nodiscard]] Options awaited() {
  Options options;
  options.asyncOp = false;
  return options;
}

}  // namespace rollcall::process_group
