#include <cassert>
#include <cstring>
#include <utility>

#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/interop/state_dict.h"
#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::interop {

namespace {

/// A state dict in memory as a source. Thread-safe.
class StateDictSource final : public format::CheckpointSource {
 public:
  StateDictSource(std::string path, StateDict state);

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const std::vector<format::ManifestEntry>& datasets() const override { return datasets_; }
  [[nodiscard]] const format::ManifestEntry* find(std::string_view name) const override {
    const auto found = number_of_.find(name);
    return found == number_of_.end() ? nullptr : &datasets_[found->second];
  }
  /// Copies from memory; checksums, if any, were compared when the file was read.
  [[nodiscard]] Result<void> read(std::span<const format::ReadRequest> requests, format::VerifyLevel level,
                                  std::size_t threads) const override;
  [[nodiscard]] Result<std::map<std::string, format::Value>> values() const override {
    return std::map<std::string, format::Value>();
  }

 private:
  std::string path_;
  StateDict state_;
  std::vector<format::ManifestEntry> datasets_;  ///< one for each tensor, in the order of the state dict
  std::map<std::string, std::size_t, std::less<>> number_of_;
};

StateDictSource::StateDictSource(std::string path, StateDict state) : path_(std::move(path)), state_(std::move(state)) {
  // With whole names, so that a search for a model also finds its prefix and other models.
  state_.tensors = with_whole_names(state_);
  for (const StateTensor& tensor : state_.tensors) {
    format::ManifestEntry entry;
    entry.name = format::schema::model_path(tensor.key);
    entry.kind = format::Kind::Tensor;
    entry.type = format::dtype_name(tensor.dtype);
    entry.element_bytes = format::dtype_size(tensor.dtype);
    entry.shape = tensor.shape;
    entry.state_dict_key = tensor.key;
    entry.bytes = tensor.bytes.size();
    entry.crc32c = storage::crc32c(tensor.bytes);
    number_of_.emplace(entry.name, datasets_.size());
    datasets_.push_back(std::move(entry));
  }
}

Result<void> StateDictSource::read(std::span<const format::ReadRequest> requests, format::VerifyLevel /*level*/,
                                   std::size_t /*threads*/) const {
  for (const format::ReadRequest& request : requests) {
    const std::span<const std::byte> all =
        state_.tensors[static_cast<std::size_t>(request.entry - datasets_.data())].bytes;
    assert(request.first_byte <= all.size() && request.into.size() <= all.size() - request.first_byte);
    std::memcpy(request.into.data(), all.data() + request.first_byte, request.into.size());
  }
  return {};
}

}  // namespace

Result<Weights> open_state_dict(const std::string& path) {
  ASSIGN_OR_RETURN(auto state, read_state_dict(path));
  std::string taken = taken_text(state);
  return Weights{std::make_unique<StateDictSource>(path, std::move(state)), std::move(taken)};
}

}  // namespace rollcall::checkpoint::interop
