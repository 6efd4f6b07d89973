#include "trainer/checkpoint/state_parts.h"

#include <algorithm>
#include <utility>

namespace rollcall::checkpoint {
namespace {

using format::DType;

constexpr bool is_number_of(DType dtype, at::ScalarType type) { return static_cast<at::ScalarType>(dtype) == type; }
static_assert(is_number_of(DType::UInt8, at::kByte) && is_number_of(DType::Int8, at::kChar) &&
              is_number_of(DType::Int16, at::kShort) && is_number_of(DType::Int32, at::kInt) &&
              is_number_of(DType::Int64, at::kLong) && is_number_of(DType::Float16, at::kHalf) &&
              is_number_of(DType::Float32, at::kFloat) && is_number_of(DType::Float64, at::kDouble) &&
              is_number_of(DType::Bool, at::kBool) && is_number_of(DType::BFloat16, at::kBFloat16));

std::int64_t rows_of(const at::Tensor& tensor) { return tensor.dim() == 0 ? 1 : tensor.size(0); }

/// Returns the first row of a tensor at or after byte `cut` of all tensors in sequence; the tensor begins at `begin`.
std::int64_t first_row_from(std::int64_t cut, std::int64_t begin, const at::Tensor& tensor) {
  const std::int64_t rows = rows_of(tensor);
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  if (cut <= begin || bytes == 0) {
    return 0;
  }
  const std::int64_t row_bytes = bytes / rows;
  return std::min((cut - begin + row_bytes - 1) / row_bytes, rows);
}

at::Tensor rows_between(const at::Tensor& tensor, std::int64_t first, std::int64_t end) {
  if (first == end) {
    return {};
  }
  return tensor.dim() == 0 ? tensor : tensor.narrow(0, first, end - first);
}

}  // namespace

format::DType format_dtype(at::ScalarType type) {
  const auto dtype = static_cast<DType>(type);
  TORCH_CHECK(std::ranges::find(format::kDTypes, dtype, &format::DTypeRow::dtype) != format::kDTypes.end(),
              "tensors of type ", type, " cannot be saved in a checkpoint");
  return dtype;
}

at::ScalarType scalar_type(DType dtype) { return static_cast<at::ScalarType>(dtype); }

void StateParts::add(std::string path, std::string state_dict_key, const at::Tensor& whole) {
  whole_.push_back(tensors.size());
  tensors.push_back(
      {std::move(path), std::move(state_dict_key), whole.sizes().vec(), whole.scalar_type(), whole.detach(), 0});
}

void StateParts::add_from_rank_zero(std::string path, std::string state_dict_key, const at::Tensor& whole) {
  from_rank_zero_.push_back(tensors.size());
  tensors.push_back(
      {std::move(path), std::move(state_dict_key), whole.sizes().vec(), whole.scalar_type(), whole.detach(), 0});
}

void StateParts::add(std::string path, std::string state_dict_key, const Shard& shard, const at::Tensor& rows,
                     bool writes) {
  tensors.push_back({std::move(path), std::move(state_dict_key), shard.whole_shape, rows.scalar_type(),
                     writes ? rows.detach() : at::Tensor(), shard.first_row});
}

void StateParts::share(std::uint32_t rank, std::uint32_t size) {
  for (const std::size_t i : from_rank_zero_) {
    tensors[i].rows = rank == 0 ? tensors[i].rows : at::Tensor();
  }
  std::int64_t total = 0;
  for (const std::size_t i : whole_) {
    total += static_cast<std::int64_t>(tensors[i].rows.nbytes());
  }
  const std::int64_t first_byte = total * rank / size;
  const std::int64_t end_byte = total * (rank + 1) / size;
  std::int64_t begin = 0;
  for (const std::size_t i : whole_) {
    TensorPart& part = tensors[i];
    const at::Tensor whole = part.rows;
    part.first_row = first_row_from(first_byte, begin, whole);
    part.rows = rows_between(whole, part.first_row, first_row_from(end_byte, begin, whole));
    begin += static_cast<std::int64_t>(whole.nbytes());
  }
}

std::uint64_t bytes_of(const StateParts& parts) {
  std::uint64_t bytes = 0;
  for (const TensorPart& part : parts.tensors) {
    bytes += part.rows.defined() ? part.rows.nbytes() : 0;
  }
  return bytes;
}

format::TensorView view_of(const TensorPart& part, const at::Tensor& host) {
  format::TensorView view{part.path, part.state_dict_key, format_dtype(part.type), part.whole_shape, {}};
  if (host.defined() && host.numel() > 0) {
    view.bytes = {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()};
    view.first_byte =
        static_cast<std::uint64_t>(part.first_row) * (host.nbytes() / static_cast<std::size_t>(rows_of(host)));
  }
  return view;
}

bool is_on_device(const TensorPart& part) {
  return part.rows.defined() && !part.rows.is_cpu() && part.rows.numel() > 0;
}

HostContent on_host(const StateParts& parts, DeviceCopies& device_copies) {
  std::vector<DeviceCopies::Source> sources;
  for (const TensorPart& part : parts.tensors) {
    if (is_on_device(part)) {
      sources.push_back({part.rows, /*changes_at_once=*/true});
    }
  }
  const std::vector<at::Tensor> copies = device_copies.copy(sources);
  device_copies.wait();
  HostContent host;
  host.content.values = parts.values;
  auto copy = copies.begin();
  for (const TensorPart& part : parts.tensors) {
    const at::Tensor rows = is_on_device(part) ? *copy++ : part.rows;
    host.held.push_back(rows.defined() && rows.is_cpu() ? rows.contiguous() : at::Tensor());
    host.content.tensors.push_back(view_of(part, host.held.back()));
  }
  return host;
}

}  // namespace rollcall::checkpoint
