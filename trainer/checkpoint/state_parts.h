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

/// This rank's rows of a parameter that is sharded along dimension 0.
struct Shard {
  at::Tensor rows;
  std::vector<std::int64_t> whole_shape;  ///< empty: a scalar, which one rank has as one row and the others as none
  std::int64_t first_row = 0;
};

/// How parameters, and with them the optimizer's state, are divided among ranks. A checkpoint holds whole tensors only:
/// each rank writes its rows of them and reads the rows that it needs.
class Sharding {
 public:
  virtual ~Sharding() = default;

  /// Returns the shard of parameter `key`; nothing for tensors that every rank has whole, such as buffers.
  [[nodiscard]] virtual std::optional<Shard> shard(const std::string& key) const = 0;
  /// Returns whether this rank writes its shards: only one of several ranks with the same shards does.
  [[nodiscard]] virtual bool writes() const = 0;
};

/// This rank's rows of one tensor of a checkpoint.
struct TensorPart {
  std::string path;
  std::string state_dict_key;
  std::vector<std::int64_t> whole_shape;
  at::ScalarType type = at::kFloat;
  at::Tensor rows;  ///< the training's memory, of any layout and device; undefined: this rank writes nothing
  std::int64_t first_row = 0;
};

/// One rank's part of a checkpoint. Tensors are referred to, not copied: they change with the optimizer's next step.
struct StateParts {
  std::vector<TensorPart> tensors;
  std::map<std::string, format::Value> values;  ///< rank 0's are written

  /// Adds a tensor that every rank has whole; share() decides which rank writes which rows.
  void add(std::string path, std::string state_dict_key, const at::Tensor& whole);
  /// Adds a tensor that may differ between ranks (BatchNorm's statistics): rank 0's is written.
  void add_from_rank_zero(std::string path, std::string state_dict_key, const at::Tensor& whole);
  /// Adds a tensor divided as `shard`, of which `rows` are this rank's: a parameter or the optimizer's state for it.
  void add(std::string path, std::string state_dict_key, const Shard& shard, const at::Tensor& rows, bool writes);

  /// Divides the tensors that every rank has whole: rank `rank` keeps about 1/`size` of the bytes, in rows that are
  /// adjacent in the file. The division is the same on every rank if all added the same tensors. Call it once.
  void share(std::uint32_t rank, std::uint32_t size);

 private:
  std::vector<std::size_t> whole_;           ///< numbers of the tensors that every rank has whole
  std::vector<std::size_t> from_rank_zero_;  ///< numbers of the tensors that rank 0 writes
};

/// Returns the type of a tensor's elements in a file. Throws c10::Error for a type that the format does not support,
/// which is a bug.
[[nodiscard]] format::DType format_dtype(at::ScalarType type);
[[nodiscard]] at::ScalarType scalar_type(format::DType dtype);

/// Returns the bytes of all rows that this rank writes.
[[nodiscard]] std::uint64_t bytes_of(const StateParts& parts);

/// Content whose views point into `held`.
struct HostContent {
  format::Content content;
  std::vector<at::Tensor> held;
};

/// Returns whether a save writes rows of the part that are on a device, so that they must be copied.
[[nodiscard]] bool is_on_device(const TensorPart& part);

/// Returns the parts in row-major order on the host, copied only if they are not so already. Tensors of a GPU are
/// copied by `device_copies`; the host waits once for all of them, and its next copies may overwrite them.
[[nodiscard]] HostContent on_host(const StateParts& parts, DeviceCopies& device_copies);

/// Returns a checkpoint writer's view of a part whose rows are in `host`, contiguous.
[[nodiscard]] format::TensorView view_of(const TensorPart& part, const at::Tensor& host);

}  // namespace rollcall::checkpoint
