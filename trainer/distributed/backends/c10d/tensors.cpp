#include "trainer/distributed/backends/c10d/tensors.h"

#include <torch/torch.h>

namespace rollcall::process_group {
namespace {

ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ElementType::Float32;
    case at::kDouble:
      return ElementType::Float64;
    case at::kHalf:
      return ElementType::Float16;
    case at::kBFloat16:
      return ElementType::BFloat16;
    case at::kChar:
      return ElementType::Int8;
    case at::kByte:
      return ElementType::UInt8;
    case at::kShort:
      return ElementType::Int16;
    case at::kInt:
      return ElementType::Int32;
    case at::kLong:
      return ElementType::Int64;
    case at::kBool:
      return ElementType::Bool;
    default:
      TORCH_CHECK_TYPE(false, "no reduction of ", type);
  }
}

Reduction reduction_of(const c10d::ReduceOp& operation) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(operation)) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
      return Reduction::Sum;
    case c10d::ReduceOp::PRODUCT:
      return Reduction::Product;
    case c10d::ReduceOp::MIN:
      return Reduction::Min;
    case c10d::ReduceOp::MAX:
      return Reduction::Max;
    case c10d::ReduceOp::BAND:
      return Reduction::BitAnd;
    case c10d::ReduceOp::BOR:
      return Reduction::BitOr;
    case c10d::ReduceOp::BXOR:
      return Reduction::BitXor;
    default:
      TORCH_CHECK_VALUE(false, "PREMUL_SUM is not supported; scale the tensor, then SUM");
  }
}

bool averages(const c10d::ReduceOp& operation) {
  return static_cast<c10d::ReduceOp::RedOpType>(operation) == c10d::ReduceOp::AVG;
}

}  // namespace

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "a tensor is on ", tensor.device(), ", not on the CPU");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "a tensor is ", tensor.layout(), ", not dense");
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, tensors.size(), " tensors where one is expected");
  check_tensor(tensors[0]);
  return tensors[0];
}

Collective reducing(CollectiveKind kind, const at::Tensor& part, const c10d::ReduceOp& operation) {
  const at::ScalarType type = part.scalar_type();
  Collective collective;
  collective.kind = kind;
  collective.bytes = part.nbytes();
  collective.element = element_type(type);
  collective.reduction = reduction_of(operation);
  TORCH_CHECK_TYPE(!averages(operation) || at::isFloatingType(type), "no average of ", type);
  TORCH_CHECK_TYPE(combine_function(collective.element, collective.reduction).has_value(), "no bitwise reduction of ",
                   type);
  return collective;
}

at::Tensor reducible(const at::Tensor& tensor, const c10d::ReduceOp& operation) {
  if (!tensor.is_complex()) {
    return tensor;
  }
  TORCH_CHECK_TYPE(c10d::isComplexViewAsRealAllowed(operation), "this reduction has no meaning for ",
                   tensor.scalar_type());
  return at::view_as_real(tensor);
}

void finish_average(const at::Tensor& sum, const c10d::ReduceOp& operation, int world_size) {
  if (averages(operation)) {
    sum.div_(world_size);
  }
}

Staged::Staged(const at::Tensor& target_tensor, bool with_values) : target(target_tensor) {
  if (target.is_contiguous()) {
    memory = target;
  } else if (with_values) {
    memory = target.contiguous();
  } else {
    memory = at::empty(target.sizes(), target.options());
  }
}

void Staged::write_back() const {
  if (!memory.is_same(target)) {
    target.copy_(memory);
  }
}

at::Tensor packed(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor);
    TORCH_CHECK_TYPE(tensor.scalar_type() == tensors[0].scalar_type(), "tensors of different types");
    rows.push_back(tensor.reshape({-1}));
  }
  return at::cat(rows);
}

void unpack(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

}  // namespace rollcall::process_group
