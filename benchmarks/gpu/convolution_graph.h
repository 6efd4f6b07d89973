#pragma once

#include <array>
#include <cstdint>
#include <list>

#include "benchmarks/gpu/cudnn_backend.h"

namespace rollcall::cudnn {

/// A convolution of square images in NHWC without groups or bias, padded so that a stride of 1 keeps the image's size.
struct Shape {
  std::int64_t batch = 0, inputs = 0, outputs = 0;  ///< images, channels
  std::int64_t side = 0, kernel = 0, stride = 0;    ///< side: of an input image, in pixels

  [[nodiscard]] std::int64_t padding() const { return kernel / 2; }
  [[nodiscard]] std::int64_t output_side() const { return side / stride; }
  [[nodiscard]] std::int64_t input_elements() const { return batch * side * side * inputs; }
  [[nodiscard]] std::int64_t weight_elements() const { return outputs * kernel * kernel * inputs; }
  [[nodiscard]] std::int64_t output_elements() const { return batch * output_side() * output_side() * outputs; }
};

/// What a graph computes: the convolution alone; its output's sum and sum of squares per channel, in float32, as well;
/// and that of max(0, scale x + bias), per channel of x, instead of x.
enum class Fusion { None, Statistics, Prologue };

/// The GPU that a plan is for: a handle's, or one that cuDNN has described (cuDNN 9.8 and later), which need not be
/// there.
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* described = nullptr;
};

/// Memory on the device. Elements are of the graph's type, but the sums' are float32. scale and bias are only read
/// with Fusion::Prologue, and sums only written with statistics.
struct Operands {
  void *x, *weights, *y, *scale, *bias, *sum, *squares;
};

/// A graph that can be run, with all that cuDNN may refer to.
class Plan {
 public:
  /// Takes the first engine of cuDNN's heuristics (mode A, then the fallback) that supports the graph; an Error says
  /// why the last one did not.
  static Result<Plan> make(const Target& target, const Shape& shape, cudnnDataType_t type, Fusion fusion);

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }
  /// What run() works on, which it does not own.
  Result<void> bind(const Operands& operands, void* workspace);
  /// Begins on the handle's stream. The plan must have been made for it.
  [[nodiscard]] cudnnStatus_t run(cudnnHandle_t handle) const {
    return cudnnBackendExecute(handle, parts_.back().raw(), pack_.raw());
  }

 private:
  explicit Plan(Fusion fusion) : fusion_(fusion) {}
  Descriptor& add(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(type); }
  Result<const Descriptor*> tensor(std::int64_t id, cudnnDataType_t type, std::array<std::int64_t, 4> nchw,
                                   bool is_virtual = false);
  Result<void> make_pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y);
  Result<const Descriptor*> make_prologue(const Shape& shape, cudnnDataType_t type, const Descriptor& x);
  Result<void> make_convolution(const Shape& shape, const Descriptor& x, const Descriptor& weights,
                                const Descriptor& y);
  Result<void> make_statistics(const Shape& shape, const Descriptor& y);
  Result<const Descriptor*> make_graph(const Target& target, const Shape& shape, cudnnDataType_t type);
  Result<void> choose_engine(const Target& target, const Descriptor& graph, cudnnBackendHeurMode_t mode);

  Fusion fusion_;
  std::list<Descriptor> parts_;  ///< the execution plan is the last
  std::list<const Descriptor*> operations_;
  Descriptor pack_{CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR};
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace rollcall::cudnn
