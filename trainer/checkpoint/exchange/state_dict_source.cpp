#include "trainer/checkpoint/exchange/state_dict_source.h"

#include <cassert>
#include <cstring>

#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::exchange {

StateDictSource::StateDictSource(std::string path, StateDict state) : path_(std::move(path)), state_(std::move(state)) {
  // Whoever looks for a model finds what is before its names, and another one beside it.
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

Result<StateDictSource> StateDictSource::read(const std::string& path) {
  auto state = read_state_dict(path);
  return state ? Result<StateDictSource>(StateDictSource(path, *std::move(state))) : state.error();
}

const format::ManifestEntry* StateDictSource::find(std::string_view name) const {
  const auto found = number_of_.find(name);
  return found == number_of_.end() ? nullptr : &datasets_[found->second];
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

}  // namespace rollcall::checkpoint::exchange
