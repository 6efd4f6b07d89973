#include "trainer/checkpoint/background/commit.h"

#include <filesystem>
#include <optional>

#include "trainer/checkpoint/background/stage.h"
#include "trainer/checkpoint/format/folder.h"

namespace rollcall::checkpoint::background {
namespace {

/// Of all ranks' parts of all tensors.
std::uint64_t whole_bytes(const format::Content& content) {
  std::uint64_t bytes = 0;
  for (const format::TensorView& tensor : content.tensors) {
    std::uint64_t elements = 1;
    for (const std::int64_t size : tensor.shape) {
      elements *= static_cast<std::uint64_t>(size);
    }
    bytes += elements * format::dtype_size(tensor.dtype);
  }
  return bytes;
}

Result<void> make_ready(const std::string& folder, std::uint64_t bytes) {
  if (Result<void> prepared = format::prepare_folder(folder); !prepared) {
    return prepared;
  }
  format::remove_stale_temporaries(folder);  // before the look: they may be what fills the disk
  const std::optional<format::FreeSpace> space = format::free_space_at(folder);
  return space ? format::check_free_space(folder, *space, bytes) : Result<void>();
}

/// What another training left where this one saves for the first time.
Result<void> give_way(const Destination& destination) {
  if (!destination.line_begins_at) {
    return {};
  }
  Result<void> superseded = format::supersede(destination.folder, *destination.line_begins_at);
  if (superseded && !destination.stage.empty()) {
    discard_left_over(destination.stage);
  }
  return superseded;
}

}  // namespace

Result<void> commit(const Destination& destination, const format::Content& content,
                    const format::WriterOptions& options, format::RankGroup& group) {
  const bool leads = group.rank() == 0;
  const bool stages = !destination.stage.empty();
  const std::uint64_t bytes = whole_bytes(content);
  Result<void> ready = leads ? make_ready(destination.folder, bytes) : Result<void>();
  if (ready && leads) {
    ready = give_way(destination);
  }
  if (ready && leads && stages) {
    ready = make_ready(destination.stage, bytes);
  }
  if (Result<void> agreed = format::agree(group, ready); !agreed) {
    return agreed;
  }
  const std::filesystem::path first(stages ? destination.stage : destination.folder);
  Result<void> written =
      format::write_checkpoint((first / format::checkpoint_name(destination.step)).string(), content, options, group);
  if (written && stages) {
    written =
        format::agree(group, leads ? publish(destination.stage, destination.folder, destination.step) : Result<void>());
  }
  if (written && leads) {
    format::tidy_folder(destination.folder, destination.step, destination.best_step, destination.retention);
  }
  if (written) {
    // Nobody waits elsewhere for a rank 0 whose file system stands still. What was written is there, whoever is lost.
    static_cast<void>(format::agree(group, {}));
  }
  return written;
}

}  // namespace rollcall::checkpoint::background
