#include "trainer/train/checkpoint_group.h"

#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "trainer/distributed/process_group/factory.h"

namespace rollcall::train {
namespace {

std::vector<std::byte> to_bytes(const std::vector<std::uint8_t>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Result<void> CheckpointGroup::broadcast(std::vector<std::byte>& bytes) {
  at::Tensor size = torch::tensor({static_cast<std::int64_t>(bytes.size())});
  if (Result<void> told = process_group::broadcast(group_, size); !told) {
    return told;
  }
  bytes.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  if (bytes.empty()) {  // a tensor without elements is no input for a collective
    return {};
  }
  at::Tensor view = torch::from_blob(bytes.data(), {size.item<std::int64_t>()}, at::kByte);
  return process_group::broadcast(group_, view);
}

Result<std::vector<std::vector<std::byte>>> CheckpointGroup::gather(std::span<const std::byte> mine) {
  const auto* const numbers = reinterpret_cast<const std::uint8_t*>(mine.data());
  const auto gathered = process_group::all_gather_bytes(group_, {numbers, numbers + mine.size()});
  if (!gathered) {
    return gathered.error();
  }
  std::vector<std::vector<std::byte>> all;
  for (const std::vector<std::uint8_t>& of_rank : rank() == 0 ? *gathered : std::vector<std::vector<std::uint8_t>>()) {
    all.push_back(to_bytes(of_rank));
  }
  return all;
}

Result<process_group::Group> make_saving_group(const World& world) {
  if (!world.process_group) {
    return process_group::Group();
  }
  process_group::ProcessGroupOptions options = world.group_options;
  options.backend = "gloo";
  options.compare_calls = false;
  const auto made = process_group::make_process_group(
      c10::make_intrusive<c10d::PrefixStore>("checkpoints", world.store), world.rank, world.world_size, options);
  return made ? Result<process_group::Group>(made->process_group) : Result<process_group::Group>(made.error());
}

}  // namespace rollcall::train
