#pragma once

#include <cstdio>
#include <cstdlib>

namespace rollcall::fuzz {

/// A property that every input must have: libFuzzer reports an abort with the input that caused it.
inline void require(bool holds, const char* property) {
  if (!holds) {
    std::fprintf(stderr, "property does not hold: %s\n", property);
    std::abort();
  }
}

}  // namespace rollcall::fuzz
