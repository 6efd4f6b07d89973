#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::format {

/// The ranks that write or load a checkpoint together, and their exchange of small data: some kilobytes for a table of
/// tensors. Collective: every rank calls the same functions in the same order, from one thread at a time, which need
/// not be the main thread. Errors (Unavailable): a peer was lost.
class RankGroup {
 public:
  RankGroup() = default;
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  virtual ~RankGroup() = default;

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t size() const = 0;
  /// Replaces `bytes` by rank 0's, of any length.
  [[nodiscard]] virtual Result<void> broadcast(std::vector<std::byte>& bytes) = 0;
  /// Returns on rank 0 the bytes of every rank, by rank; lengths may differ. Returns nothing on other ranks.
  [[nodiscard]] virtual Result<std::vector<std::vector<std::byte>>> gather(std::span<const std::byte> mine) = 0;
};

/// A group of one process, which sends nothing.
class SingleRank final : public RankGroup {
 public:
  [[nodiscard]] std::uint32_t rank() const override { return 0; }
  [[nodiscard]] std::uint32_t size() const override { return 1; }
  [[nodiscard]] Result<void> broadcast(std::vector<std::byte>& /*bytes*/) override { return {}; }
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> gather(std::span<const std::byte> mine) override {
    return std::vector<std::vector<std::byte>>{{mine.begin(), mine.end()}};
  }
};

/// Returns success if every rank succeeded, else the error of the lowest rank that failed, the same on all ranks.
/// Collective. Errors also (Unavailable): a peer was lost.
[[nodiscard]] Result<void> agree(RankGroup& group, const Result<void>& mine);

}  // namespace rollcall::checkpoint::format
