#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/device_copies.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// This rank's rows of a parameter that is divided along dimension 0.
struct Shard {
  at::Tensor rows;
  std::vector<std::int64_t> whole_shape;  ///< empty: a scalar, which one rank has as one row and the others as none
  std::int64_t first_row = 0;
};

/// How parameters, and with them the optimizer's state, are divided among ranks. A checkpoint knows only whole tensors:
/// each rank writes its rows of them, and reads those that it needs.
class Sharding {
 public:
  virtual ~Sharding() = default;

  /// Of parameter `key`; nothing for what every rank has whole, as buffers.
  [[nodiscard]] virtual std::optional<Shard> shard(const std::string& key) const = 0;
  /// Whether this rank writes its shards: of several ranks with the same ones only one does.
  [[nodiscard]] virtual bool writes() const = 0;
};

/// This rank's rows of one tensor of a checkpoint.
struct TensorPart {
  std::string path;
  std::string state_dict_key;
  std::vector<std::int64_t> whole_shape;
  at::ScalarType type = at::kFloat;
  at::Tensor rows;  ///< the training's own memory, of any layout and device; undefined where this rank gives nothing
  std::int64_t first_row = 0;
};

/// What one rank gives to a checkpoint. Tensors are referred to, not copied: they change with the next step of the
/// optimizer.
struct StateParts {
  std::vector<TensorPart> tensors;
  std::map<std::string, format::Value> values;  ///< those of rank 0 count

  /// Adds a tensor that every rank has whole; share() decides who writes which rows.
  void add(std::string path, std::string state_dict_key, const at::Tensor& whole);
  /// Adds a tensor of which every rank may have another version (BatchNorm's statistics): rank 0's counts.
  void add_of_first_rank(std::string path, std::string state_dict_key, const at::Tensor& whole);
  /// Adds a tensor divided as `shard`, of which `rows` are this rank's: the parameter or an optimizer's state for it.
  void add(std::string path, std::string state_dict_key, const Shard& shard, const at::Tensor& rows, bool writes);

  /// Leaves of the tensors that every rank has whole about 1/`size` of the bytes to rank `rank`, in rows that follow
  /// one another in the file. The same division on every rank, if they added the same. Once.
  void share(std::uint32_t rank, std::uint32_t size);

 private:
  std::vector<std::size_t> whole_;          ///< numbers of the tensors that every rank has
  std::vector<std::size_t> of_first_rank_;  ///< and of those that rank 0 writes
};

/// "float32", "bfloat16" ... of a tensor. Types that the format does not have are a bug of ours: throws c10::Error.
[[nodiscard]] format::DType format_dtype(at::ScalarType type);
[[nodiscard]] at::ScalarType scalar_type(format::DType dtype);

/// Of all rows that this rank gives.
[[nodiscard]] std::uint64_t bytes_of(const StateParts& parts);

/// Content whose views point into `held`.
struct HostContent {
  format::Content content;
  std::vector<at::Tensor> held;
};

/// The parts in row-major order on the host; copied only where they are not so already. Tensors of a GPU are copied by
/// `device_copies`, for all of which the host waits once; its next copies overwrite them.
[[nodiscard]] HostContent on_host(const StateParts& parts, DeviceCopies& device_copies);

/// The view that a checkpoint's writer takes of a part whose rows lie in `host`, contiguous.
[[nodiscard]] format::TensorView view_of(const TensorPart& part, const at::Tensor& host);

}  // namespace rollcall::checkpoint
