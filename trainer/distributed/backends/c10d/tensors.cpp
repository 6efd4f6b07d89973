#include "trainer/distributed/backends/c10d/tensors.h"
#include "trainer/torch.h"

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

/// The bytes of one of `world_size` equal parts of `tensor`.
std::size_t equal_part(const at::Tensor& tensor, int world_size) {
  TORCH_CHECK_VALUE(tensor.numel() == 0 || tensor.size(0) % world_size == 0, tensor.size(0),
                    " rows cannot be divided evenly among ", world_size, " ranks");
  return tensor.nbytes() / static_cast<std::size_t>(world_size);
}

/// The bytes of each rank's rows of `tensor`; equal parts where `rows` is empty.
std::vector<std::size_t> part_bytes(const at::Tensor& tensor, const std::vector<std::int64_t>& rows, int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  if (rows.empty()) {
    return std::vector<std::size_t>(ranks, equal_part(tensor, world_size));
  }
  TORCH_CHECK_VALUE(rows.size() == ranks, "as many split sizes as ranks are needed");
  const std::int64_t all = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::vector<std::size_t> bytes;
  std::int64_t sum = 0;
  for (const std::int64_t count : rows) {
    bytes.push_back(all == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(all) * static_cast<std::size_t>(count));
    sum += count;
  }
  TORCH_CHECK_VALUE(sum == all, "split sizes add up to ", sum, " of ", all, " rows");
  return bytes;
}

std::vector<std::size_t> bytes_of_each(const std::vector<at::Tensor>& tensors) {
  std::vector<std::size_t> bytes;
  bytes.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    bytes.push_back(tensor.nbytes());
  }
  return bytes;
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

Collective copying(CollectiveKind kind, std::size_t bytes, std::int64_t root) {
  Collective collective;
  collective.kind = kind;
  collective.bytes = bytes;
  collective.root = static_cast<std::uint32_t>(root);
  return collective;
}

Collective exchanging(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) {
  Collective collective = copying(CollectiveKind::AllToAll, 0);
  collective.send_bytes = bytes_of_each(inputs);
  collective.receive_bytes = bytes_of_each(outputs);
  return collective;
}

Collective exchanging(const at::Tensor& input, const std::vector<std::int64_t>& input_rows, const at::Tensor& output,
                      const std::vector<std::int64_t>& output_rows, int world_size) {
  if (!input_rows.empty() || !output_rows.empty()) {
    Collective collective = copying(CollectiveKind::AllToAll, 0);
    collective.send_bytes = part_bytes(input, input_rows, world_size);
    collective.receive_bytes = part_bytes(output, output_rows, world_size);
    return collective;
  }
  TORCH_CHECK_VALUE(input.nbytes() == output.nbytes(), "equal parts of ", input.nbytes(), " bytes cannot become ",
                    output.nbytes(), " bytes");
  return copying(CollectiveKind::AllToAll, equal_part(input, world_size));
}

at::Tensor room_for(const at::Tensor& part, int world_size) {
  return at::empty({part.numel() * world_size}, part.options());
}

void check_list(const std::vector<at::Tensor>& list, const at::Tensor& part, int world_size) {
  TORCH_CHECK_VALUE(list.size() == static_cast<std::size_t>(world_size), list.size(), " tensors for ", world_size,
                    " ranks");
  for (const at::Tensor& tensor : list) {
    check_tensor(tensor);
    TORCH_CHECK_VALUE(tensor.numel() == part.numel() && tensor.scalar_type() == part.scalar_type(),
                      "tensors of the list differ in size or type from this rank's");
  }
}

void check_whole(const at::Tensor& whole, const at::Tensor& part, int world_size) {
  check_tensor(whole);
  check_tensor(part);
  TORCH_CHECK_TYPE(whole.scalar_type() == part.scalar_type(), "tensors of different types: ", whole.scalar_type(),
                   " and ", part.scalar_type());
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * world_size, "a tensor of ", whole.numel(), " elements is not ",
                    world_size, " times one of ", part.numel());
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
