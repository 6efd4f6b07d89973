#pragma once

#include <string>

namespace rollcall::train {

/// How a change of the world went (--elastic), in seconds from the moment at which a rank noticed it; see Living for
/// whose they are.
struct Recovery {
  std::string cause = {};  ///< one line: what was lost, or that nodes came or went; empty: no change
  double noticed = 0;      ///< seconds_now() of it
  double released = 0;     ///< until it had let go of the old groups
  double hold = 0;         ///< until the agent had said that the generation is over
  double joined = 0;       ///< until the ranks had met again
  double restored = 0;     ///< until the loop went on
};

}  // namespace rollcall::train
