#include "trainer/checkpoint/parameter_state.h"

namespace rollcall::checkpoint {
namespace {

std::string state_path(const std::string& key, const std::string& name) {
  return "/optimizer/state/" + key + "/" + name;
}

}  // namespace

void StateSink::add(const std::string& name, const at::Tensor& tensor) const {
  if (const auto shard = sharding_ != nullptr ? sharding_->shard(key_) : std::nullopt) {
    parts_.add(state_path(key_, name), "", *shard, tensor, sharding_->writes());
  } else {
    parts_.add(state_path(key_, name), "", tensor);
  }
}

void StateSink::add(const std::string& name, std::int64_t number) const {
  parts_.values[state_path(key_, name)] = number;
}

std::string StateSource::path(const std::string& name) const { return state_path(key_, name); }

at::Tensor StateSource::tensor(const std::string& name) const {
  const format::ManifestEntry* const entry = stored_.tensor(path(name));
  if (entry == nullptr) {
    return {};
  }
  const auto shard = sharding_ != nullptr ? sharding_->shard(key_) : std::nullopt;
  const std::vector<std::int64_t> whole = shard ? shard->whole_shape : parameter_.sizes().vec();
  TORCH_CHECK(entry->shape == whole, entry->name, " is ", format::shape_text(entry->shape), " there and ",
              format::shape_text(whole), " here");
  return plan_.make(parameter_, *entry, shard ? shard->first_row : 0);
}

std::optional<std::int64_t> StateSource::number(const std::string& name) const {
  const auto* const value = stored_.value<std::int64_t>(path(name));
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

}  // namespace rollcall::checkpoint
