// Declares the class of Gloo's contexts that ProcessGroupGloo.hpp uses. libtorch_cpu contains Gloo, but LibTorch's
// wheel leaves its headers out. Only pointers to this class pass through our code, so its layout does not matter.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds getTimeout() const;
};

}  // namespace gloo
