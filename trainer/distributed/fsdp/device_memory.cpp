#include "trainer/distributed/fsdp/device_memory.h"

#include <torch/torch.h>
#include <cstring>

namespace rollcall::parallel::fsdp {
namespace {

at::Tensor bytes_of(const at::Tensor& tensor) { return in_memory_order(tensor).view(at::kByte); }

void copy_in_main_memory(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces) {
  auto* const target = static_cast<char*>(to.mutable_data_ptr());
  const auto* const source = static_cast<const char*>(from.const_data_ptr());
  for (const Piece& piece : pieces) {
    if (piece.bytes > 0) {
      std::memcpy(target + piece.to, source + piece.from, static_cast<std::size_t>(piece.bytes));
    }
  }
}

void copy_on_device(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces) {
  const at::Tensor target = bytes_of(to);
  const at::Tensor source = bytes_of(from);
  std::vector<at::Tensor> targets;
  std::vector<at::Tensor> sources;
  for (const Piece& piece : pieces) {
    if (piece.bytes > 0) {
      targets.push_back(target.narrow(0, piece.to, piece.bytes));
      sources.push_back(source.narrow(0, piece.from, piece.bytes));
    }
  }
  if (!targets.empty()) {
    at::_foreach_copy_(targets, sources, /*non_blocking=*/true);
  }
}

}  // namespace

void copy_pieces(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces) {
  const torch::NoGradGuard no_grad;
  if (to.is_cpu()) {
    copy_in_main_memory(to, from, pieces);
  } else {
    copy_on_device(to, from, pieces);
  }
}

void set_zero(const at::Tensor& tensor, std::int64_t begin, std::int64_t bytes) {
  if (bytes == 0) {
    return;
  }
  const torch::NoGradGuard no_grad;
  if (tensor.is_cpu()) {
    std::memset(static_cast<char*>(tensor.mutable_data_ptr()) + begin, 0, static_cast<std::size_t>(bytes));
  } else {
    bytes_of(tensor).narrow(0, begin, bytes).zero_();
  }
}

at::Tensor in_memory_order(const at::Tensor& tensor) { return tensor.detach().as_strided({tensor.numel()}, {1}); }

}  // namespace rollcall::parallel::fsdp
