#include "trainer/train/object_collectives.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "trainer/torch.h"

namespace rollcall::train {

Result<std::vector<nlohmann::json>> all_gather_json(const process_group::Group& group, const nlohmann::json& mine) {
  ASSIGN_OR_RETURN(const auto all, process_group::all_gather_bytes(group, nlohmann::json::to_cbor(mine)));
  std::vector<nlohmann::json> received;
  received.reserve(all.size());
  for (const std::vector<std::uint8_t>& of_rank : all) {
    received.push_back(nlohmann::json::from_cbor(of_rank));
  }
  return received;
}

Result<std::vector<std::int64_t>> broadcast_numbers(const process_group::Group& group,
                                                    const std::vector<std::int64_t>& mine) {
  at::Tensor numbers = torch::tensor(mine, at::kLong);
  RETURN_IF_ERROR(process_group::broadcast(group, numbers));
  const std::int64_t* const first = numbers.const_data_ptr<std::int64_t>();
  return std::vector<std::int64_t>(first, first + mine.size());
}

Result<std::string> broadcast_text(std::uint32_t rank, const process_group::Group& group, const std::string& mine) {
  at::Tensor length = torch::tensor({static_cast<std::int64_t>(mine.size())}, at::kLong);
  RETURN_IF_ERROR(process_group::broadcast(group, length, rank));
  std::string text = mine;
  text.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  if (text.empty()) {
    return text;  // collectives do not accept a tensor without elements
  }
  // A separate tensor, because data may arrive in it later if the collective is abandoned.
  at::Tensor moved = torch::from_blob(text.data(), {length.item<std::int64_t>()}, at::kByte).clone();
  RETURN_IF_ERROR(process_group::broadcast(group, moved, rank));
  std::memcpy(text.data(), moved.const_data_ptr(), text.size());
  return text;
}

}  // namespace rollcall::train
