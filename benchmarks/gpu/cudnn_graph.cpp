// How long cuDNN's graphs take for the convolutions of a network: alone, with statistics of the output in the same
// kernel, and with normalisation and ReLU of the input in it as well (docs/developer/gpu_predictions.md). Reads a line
// for each shape, "INPUTS OUTPUTS SIDE KERNEL STRIDE PROLOGUE", and prints a line of JSON for each: milliseconds of a
// run, or why there are none; "wrong" is what differs from the CPU's numbers. With GPU.json, cuDNN's description of a
// GPU that need not be there, nothing is run: the lines say for which graphs cuDNN has an engine.
//   benchmarks/gpu/convolutions.py --shapes | cudnn_graph [BATCH [bfloat16|float16 [GPU.json]]]
// Exit codes: 0, 1 for wrong numbers, 69 without a GPU or a description that cuDNN understands.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/gpu/convolution_check.h"
#include "benchmarks/gpu/convolution_graph.h"

namespace rollcall::cudnn {
namespace {

constexpr int kWarmUps = 3;
constexpr int kRuns = 20;
constexpr std::pair<const char*, Fusion> kFusions[] = {
    {"plain", Fusion::None}, {"statistics", Fusion::Statistics}, {"prologue", Fusion::Prologue}};

Result<void> done(cudaError_t status, const char* what) {
  return status == cudaSuccess ? Result<void>()
                               : Result<void>(fail("CUDA", what, cudaGetErrorString(status), "nvidia-smi on this node",
                                                   ErrorKind::Unavailable));
}

/// Memory of the device.
class Memory {
 public:
  static Result<Memory> of(std::int64_t bytes) {
    void* start = nullptr;
    RETURN_IF_ERROR(done(cudaMalloc(&start, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16))), "memory"));
    return Memory(start);
  }
  /// `count` elements, of which `first` are repeated.
  static Result<Memory> of(std::int64_t count, const std::vector<std::uint16_t>& first) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof first[0];
    ASSIGN_OR_RETURN(Memory memory, of(static_cast<std::int64_t>(bytes)));
    std::size_t filled = first.size() * sizeof first[0];
    RETURN_IF_ERROR(done(cudaMemcpy(memory.start(), first.data(), filled, cudaMemcpyHostToDevice), "a copy"));
    while (filled < bytes) {
      const std::size_t more = std::min(filled, bytes - filled);
      RETURN_IF_ERROR(
          done(cudaMemcpy(static_cast<char*>(memory.start()) + filled, memory.start(), more, cudaMemcpyDeviceToDevice),
               "a copy"));
      filled += more;
    }
    return memory;
  }

  [[nodiscard]] void* start() const { return start_.get(); }
  template <typename T>
  Result<std::vector<T>> copy(std::int64_t count) const {
    std::vector<T> copied(static_cast<std::size_t>(count));
    RETURN_IF_ERROR(
        done(cudaMemcpy(copied.data(), start(), copied.size() * sizeof(T), cudaMemcpyDeviceToHost), "a copy"));
    return copied;
  }

 private:
  struct Free {
    void operator()(void* start) const { cudaFree(start); }
  };
  explicit Memory(void* start) : start_(start) {}

  std::unique_ptr<void, Free> start_;
};

class Event {
 public:
  Event() { cudaEventCreate(&event_); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Milliseconds of a run. What a run reads and has written stays in the cache where it fits, as in a training.
Result<double> milliseconds(cudnnHandle_t handle, const Plan& plan) {
  const Event begin;
  const Event end;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  for (int run = 0; run < kWarmUps + kRuns && status == CUDNN_STATUS_SUCCESS; ++run) {
    if (run == kWarmUps) {
      cudaEventRecord(begin.get());
    }
    status = plan.run(handle);
  }
  RETURN_IF_ERROR(checked(status, "a run"));
  cudaEventRecord(end.get());
  RETURN_IF_ERROR(done(cudaEventSynchronize(end.get()), "a run"));
  float total = 0;
  RETURN_IF_ERROR(done(cudaEventElapsedTime(&total, begin.get(), end.get()), "a time"));
  return total / kRuns;
}

struct Layer {
  Shape shape;
  bool prologue;  ///< whether the network has one before it
};

/// What a graph of each kind works on.
struct Buffers {
  Memory x, weights, y, scale, bias, sum, squares;

  static Result<Buffers> of(const Shape& shape, cudnnDataType_t type) {
    const auto filled = [&](Operand operand, std::int64_t count) {
      return Memory::of(count, elements(operand, count, shape, type));
    };
    ASSIGN_OR_RETURN(Memory x, filled(Operand::X, shape.input_elements()));
    ASSIGN_OR_RETURN(Memory weights, filled(Operand::Weights, shape.weight_elements()));
    ASSIGN_OR_RETURN(Memory scale, filled(Operand::Scale, shape.inputs));
    ASSIGN_OR_RETURN(Memory bias, filled(Operand::Bias, shape.inputs));
    ASSIGN_OR_RETURN(Memory y, Memory::of(shape.output_elements() * 2));
    ASSIGN_OR_RETURN(Memory sum, Memory::of(shape.outputs * 4));
    ASSIGN_OR_RETURN(Memory squares, Memory::of(shape.outputs * 4));
    return Buffers{std::move(x),    std::move(weights), std::move(y),      std::move(scale),
                   std::move(bias), std::move(sum),     std::move(squares)};
  }
  /// What a graph does not write shows as infinite or not a number.
  Result<void> forget_outputs(const Shape& shape) const {
    RETURN_IF_ERROR(done(cudaMemset(y.start(), 0xff, static_cast<std::size_t>(shape.output_elements()) * 2), "memory"));
    RETURN_IF_ERROR(done(cudaMemset(sum.start(), 0xff, static_cast<std::size_t>(shape.outputs) * 4), "memory"));
    return done(cudaMemset(squares.start(), 0xff, static_cast<std::size_t>(shape.outputs) * 4), "memory");
  }
  [[nodiscard]] Operands operands() const {
    return {.x = x.start(),
            .weights = weights.start(),
            .y = y.start(),
            .scale = scale.start(),
            .bias = bias.start(),
            .sum = sum.start(),
            .squares = squares.start()};
  }
};

/// Returns the time of a run, and what is wrong with its numbers.
Result<nlohmann::json> measured(cudnnHandle_t handle, const Shape& shape, cudnnDataType_t type, Fusion fusion,
                                const Buffers& buffers) {
  ASSIGN_OR_RETURN(Plan plan, Plan::make({.handle = handle}, shape, type, fusion));
  ASSIGN_OR_RETURN(const Memory workspace, Memory::of(plan.workspace_bytes()));
  RETURN_IF_ERROR(plan.bind(buffers.operands(), workspace.start()));
  RETURN_IF_ERROR(buffers.forget_outputs(shape));
  ASSIGN_OR_RETURN(const double taken, milliseconds(handle, plan));
  const std::int64_t sums = fusion == Fusion::None ? 0 : shape.outputs;
  ASSIGN_OR_RETURN(const std::vector<std::uint16_t> y, buffers.y.copy<std::uint16_t>(shape.output_elements()));
  ASSIGN_OR_RETURN(const std::vector<float> sum, buffers.sum.copy<float>(sums));
  ASSIGN_OR_RETURN(const std::vector<float> squares, buffers.squares.copy<float>(sums));
  nlohmann::json found{{"ms", taken}, {"workspace_bytes", plan.workspace_bytes()}};
  const std::string wrong = what_is_wrong(shape, fusion == Fusion::Prologue, type, y, sum, squares);
  if (!wrong.empty()) {
    found["wrong"] = wrong;
  }
  return found;
}

/// Prints a line of what `look` finds for each graph. Returns whether no numbers are wrong.
template <typename Look>
bool report(const Layer& layer, const Look& look) {
  const Shape& shape = layer.shape;
  nlohmann::json line{{"shape", fmt::format("{} to {}, {} x {}, {} x {}, stride {}", shape.inputs, shape.outputs,
                                            shape.side, shape.side, shape.kernel, shape.kernel, shape.stride)}};
  bool right = true;
  for (const auto& [name, fusion] : kFusions) {
    if (fusion == Fusion::Prologue && !layer.prologue) {
      continue;
    }
    const Result<nlohmann::json> found = look(fusion);
    line[name] = found ? *found : nlohmann::json{{"not_supported", found.error().value + ": " + found.error().reason}};
    right = right && !line[name].contains("wrong");
  }
  std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(stdout);
  return right;
}

bool next(Layer& layer) {
  Shape& shape = layer.shape;
  const bool read = static_cast<bool>(std::cin >> shape.inputs >> shape.outputs >> shape.side >> shape.kernel >>
                                      shape.stride >> layer.prologue);
  return read && shape.batch > 0 && shape.inputs > 0 && shape.outputs > 1 && shape.kernel > 0 && shape.stride > 0 &&
         shape.side >= shape.stride;
}

/// Returns whether all numbers of all shapes were right.
Result<bool> run(std::int64_t batch, cudnnDataType_t type) {
  int devices = 0;
  RETURN_IF_ERROR(done(cudaGetDeviceCount(&devices), "a device"));
  cudnnHandle_t raw = nullptr;
  RETURN_IF_ERROR(checked(cudnnCreate(&raw), "a handle"));
  const std::unique_ptr<cudnnContext, decltype(&cudnnDestroy)> handle(raw, cudnnDestroy);
  bool right = true;
  for (Layer layer{.shape = {.batch = batch}, .prologue = false}; next(layer);) {
    ASSIGN_OR_RETURN(const Buffers buffers, Buffers::of(layer.shape, type));
    right = report(layer, [&](Fusion fusion) { return measured(raw, layer.shape, type, fusion, buffers); }) && right;
  }
  return right;
}

/// What cuDNN would do on the GPU that the file describes.
Result<bool> plan(std::int64_t batch, cudnnDataType_t type, const std::string& file) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  Descriptor described(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  described.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()),
                text.data());
  RETURN_IF_ERROR(described.finalize("the description of a GPU"));
  for (Layer layer{.shape = {.batch = batch}, .prologue = false}; next(layer);) {
    report(layer, [&](Fusion fusion) -> Result<nlohmann::json> {
      ASSIGN_OR_RETURN(const Plan made, Plan::make({.described = &described}, layer.shape, type, fusion));
      return nlohmann::json{{"workspace_bytes", made.workspace_bytes()}};
    });
  }
  return true;
}

}  // namespace
}  // namespace rollcall::cudnn

int main(int argc, char** argv) {
  using namespace rollcall;
  const std::int64_t batch = argc > 1 ? std::stoll(argv[1]) : 256;
  const bool half = argc > 2 && std::string(argv[2]) == "float16";
  const cudnnDataType_t type = half ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  const Result<bool> right = argc > 3 ? cudnn::plan(batch, type, argv[3]) : cudnn::run(batch, type);
  if (!right) {
    std::fprintf(stderr, "%s\n", right.error().message().c_str());
    return static_cast<int>(right.error().exit_code());
  }
  return *right ? 0 : 1;
}
