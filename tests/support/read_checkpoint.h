#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint/format/reader.h"

namespace rollcall::checkpoint::format {

/// Content that was read from a file, together with the memory that its views point into. Move only.
struct LoadedContent {
  Content content;
  std::vector<std::unique_ptr<std::byte[]>> storage;
};

inline std::uint64_t aligned(std::uint64_t number, std::uint64_t alignment) {
  return (number + alignment - 1) / alignment * alignment;
}

/// One stretch of memory for all tensors, in huge pages where the system has them: to get 300 MB page by page takes as
/// long as to read them.
inline void place_in_memory(LoadedContent& loaded, std::vector<ReadRequest>& requests) {
  constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20U;
  std::uint64_t total = 0;
  for (const ReadRequest& request : requests) {
    total += aligned(request.entry->bytes, kAlignment);
  }
  auto& memory = loaded.storage.emplace_back(std::make_unique_for_overwrite<std::byte[]>(total + kHugePage));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.get());
  std::byte* next = memory.get() + (aligned(begin, kHugePage) - begin);
  static_cast<void>(::madvise(next, total, MADV_HUGEPAGE));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::uint64_t bytes = requests[i].entry->bytes;
    requests[i].into = {next, bytes};
    loaded.content.tensors[i].bytes = requests[i].into;
    next += aligned(bytes, kAlignment);
  }
}

/// Reads a whole checkpoint into memory, every byte checked. Errors: see CheckpointReader.
[[nodiscard]] inline Result<LoadedContent> read_checkpoint(const std::string& path) {
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::open(path));
  LoadedContent loaded;
  std::vector<ReadRequest> requests;
  for (const ManifestEntry& entry : reader.datasets()) {
    const auto dtype = entry.kind == Kind::Tensor ? dtype_from_name(entry.type) : std::nullopt;
    if (dtype) {
      loaded.content.tensors.push_back({entry.name, entry.state_dict_key, *dtype, entry.shape, {}});
      requests.push_back({&entry, 0, {}});
    }
  }
  place_in_memory(loaded, requests);
  ASSIGN_OR_RETURN(auto values, reader.values());
  loaded.content.values = std::move(values);
  RETURN_IF_ERROR(reader.read(requests, VerifyLevel::Full, default_threads()));
  return loaded;
}

}  // namespace rollcall::checkpoint::format
