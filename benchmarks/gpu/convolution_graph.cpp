#include "benchmarks/gpu/convolution_graph.h"

#include <utility>
#include <vector>

namespace rollcall::cudnn {
namespace {

/// Names of tensors within a graph; virtual ones exist only between its operations.
enum Id : std::int64_t { kX = 1, kWeights, kY, kScale, kBias, kSum, kSquares, kScaled, kShifted, kRectified };

constexpr std::array<std::int64_t, 2> both(std::int64_t value) { return {value, value}; }

}  // namespace

Result<const Descriptor*> Plan::tensor(std::int64_t id, cudnnDataType_t type, std::array<std::int64_t, 4> nchw,
                                       bool is_virtual) {
  const auto [n, c, h, w] = nchw;
  Descriptor& made = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, nchw)
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::array<std::int64_t, 4>{h * w * c, 1, w * c, c})
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  RETURN_IF_ERROR(made.finalize("a tensor"));
  return &made;
}

Result<void> Plan::make_pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
                                  const Descriptor& y) {
  Descriptor& kind = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  RETURN_IF_ERROR(kind.finalize("a kind of pointwise operation"));
  Descriptor& operation = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b != nullptr) {
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  }
  operations_.push_back(&operation);
  return operation.finalize("a pointwise operation");
}

/// Returns what the convolution reads instead of x.
Result<const Descriptor*> Plan::make_prologue(const Shape& shape, cudnnDataType_t type, const Descriptor& x) {
  const std::array<std::int64_t, 4> images{shape.batch, shape.inputs, shape.side, shape.side};
  const std::array<std::int64_t, 4> channels{1, shape.inputs, 1, 1};
  ASSIGN_OR_RETURN(const Descriptor* const scale, tensor(kScale, type, channels));
  ASSIGN_OR_RETURN(const Descriptor* const bias, tensor(kBias, type, channels));
  ASSIGN_OR_RETURN(const Descriptor* const scaled, tensor(kScaled, CUDNN_DATA_FLOAT, images, true));
  ASSIGN_OR_RETURN(const Descriptor* const shifted, tensor(kShifted, CUDNN_DATA_FLOAT, images, true));
  ASSIGN_OR_RETURN(const Descriptor* const rectified, tensor(kRectified, CUDNN_DATA_FLOAT, images, true));
  RETURN_IF_ERROR(make_pointwise(CUDNN_POINTWISE_MUL, x, scale, *scaled));
  RETURN_IF_ERROR(make_pointwise(CUDNN_POINTWISE_ADD, *scaled, bias, *shifted));
  RETURN_IF_ERROR(make_pointwise(CUDNN_POINTWISE_RELU_FWD, *shifted, nullptr, *rectified));
  return rectified;
}

Result<void> Plan::make_convolution(const Shape& shape, const Descriptor& x, const Descriptor& weights,
                                    const Descriptor& y) {
  Descriptor& kind = add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, both(shape.padding()))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, both(shape.padding()))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, both(shape.stride))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, both(1));
  RETURN_IF_ERROR(kind.finalize("a kind of convolution"));
  Descriptor& operation = add(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, kind)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, weights)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F);
  operations_.push_back(&operation);
  return operation.finalize("a convolution");
}

Result<void> Plan::make_statistics(const Shape& shape, const Descriptor& y) {
  const std::array<std::int64_t, 4> channels{1, shape.outputs, 1, 1};
  ASSIGN_OR_RETURN(const Descriptor* const sum, tensor(kSum, CUDNN_DATA_FLOAT, channels));
  ASSIGN_OR_RETURN(const Descriptor* const squares, tensor(kSquares, CUDNN_DATA_FLOAT, channels));
  Descriptor& operation = add(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, *sum)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, *squares);
  operations_.push_back(&operation);
  return operation.finalize("statistics");
}

Result<const Descriptor*> Plan::make_graph(const Target& target, const Shape& shape, cudnnDataType_t type) {
  const std::int64_t side = shape.output_side();
  ASSIGN_OR_RETURN(const Descriptor* x, tensor(kX, type, {shape.batch, shape.inputs, shape.side, shape.side}));
  ASSIGN_OR_RETURN(const Descriptor* const weights,
                   tensor(kWeights, type, {shape.outputs, shape.inputs, shape.kernel, shape.kernel}));
  ASSIGN_OR_RETURN(const Descriptor* const y, tensor(kY, type, {shape.batch, shape.outputs, side, side}));
  if (fusion_ == Fusion::Prologue) {
    ASSIGN_OR_RETURN(x, make_prologue(shape, type, *x));
  }
  RETURN_IF_ERROR(make_convolution(shape, *x, *weights, *y));
  if (fusion_ != Fusion::None) {
    RETURN_IF_ERROR(make_statistics(shape, *y));
  }
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Descriptor* const operation : operations_) {
    raw.push_back(operation->raw());
  }
  Descriptor& graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle != nullptr) {
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  }
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()),
            raw.data());
  RETURN_IF_ERROR(graph.finalize("a graph"));
  return &graph;
}

Result<void> Plan::choose_engine(const Target& target, const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor& heuristics = add(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.described != nullptr) {
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.described);
  }
  RETURN_IF_ERROR(heuristics.finalize("heuristics"));
  std::int64_t count = 0;
  RETURN_IF_ERROR(checked(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                          "heuristics"));
  std::vector<const Descriptor*> engines;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    engines.push_back(&add(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(engines.back()->raw());
  }
  RETURN_IF_ERROR(checked(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
                          "heuristics"));
  Result<void> outcome = fail("cuDNN", "an engine", "none is known for this graph", "", ErrorKind::Unavailable);
  for (std::int64_t i = 0; i < count && !outcome; ++i) {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *engines[static_cast<std::size_t>(i)]);
    if (target.described != nullptr) {
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.described);
    } else {
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
    }
    outcome = plan.finalize("an engine");
    if (outcome) {
      outcome = checked(cudnnBackendGetAttribute(plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                                 1, nullptr, &workspace_bytes_),
                        "a plan's workspace");
      parts_.push_back(std::move(plan));
    }
  }
  return outcome;
}

Result<Plan> Plan::make(const Target& target, const Shape& shape, cudnnDataType_t type, Fusion fusion) {
  Plan plan(fusion);
  ASSIGN_OR_RETURN(const Descriptor* const graph, plan.make_graph(target, shape, type));
  if (!plan.choose_engine(target, *graph, CUDNN_HEUR_MODE_A)) {
    RETURN_IF_ERROR(plan.choose_engine(target, *graph, CUDNN_HEUR_MODE_FALLBACK));
  }
  return plan;
}

Result<void> Plan::bind(const Operands& operands, void* workspace) {
  std::vector<std::int64_t> ids{kX, kWeights, kY};
  std::vector<void*> pointers{operands.x, operands.weights, operands.y};
  if (fusion_ != Fusion::None) {
    ids.insert(ids.end(), {kSum, kSquares});
    pointers.insert(pointers.end(), {operands.sum, operands.squares});
  }
  if (fusion_ == Fusion::Prologue) {
    ids.insert(ids.end(), {kScale, kBias});
    pointers.insert(pointers.end(), {operands.scale, operands.bias});
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  pack_.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data())
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  return pack_.finalize("operands");
}

}  // namespace rollcall::cudnn
