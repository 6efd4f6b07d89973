#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/state_dict.h"
#include "trainer/checkpoint/format/source.h"

namespace rollcall::checkpoint::exchange {

/// A state dict of another program's as a checkpoint that has a model and nothing else. All of it is in memory. Move
/// only; thread-safe.
class StateDictSource final : public format::CheckpointSource {
 public:
  /// Errors: those of read_state_dict().
  [[nodiscard]] static Result<StateDictSource> read(const std::string& path);

  [[nodiscard]] std::string taken() const { return taken_text(state_); }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const std::vector<format::ManifestEntry>& datasets() const override { return datasets_; }
  [[nodiscard]] const format::ManifestEntry* find(std::string_view name) const override;
  /// Copies; its checksums were compared when the file was read, where it has any.
  [[nodiscard]] Result<void> read(std::span<const format::ReadRequest> requests, format::VerifyLevel level,
                                  std::size_t threads) const override;
  [[nodiscard]] Result<std::map<std::string, format::Value>> values() const override {
    return std::map<std::string, format::Value>();
  }

 private:
  StateDictSource(std::string path, StateDict state);

  std::string path_;
  StateDict state_;
  std::vector<format::ManifestEntry> datasets_;  ///< as many as the state dict has tensors, in its order
  std::map<std::string, std::size_t, std::less<>> number_of_;
};

}  // namespace rollcall::checkpoint::exchange
