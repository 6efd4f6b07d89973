#include "trainer/distributed/fsdp/shard_layout.h"

#include <algorithm>
#include <iterator>

#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

RowShards::RowShards(const at::Tensor& whole, std::int64_t ranks)
    : rows(whole.dim() > 0 ? whole.size(0) : 1),
      row_numel(rows > 0 ? whole.numel() / rows : 0),
      chunk((rows + ranks - 1) / ranks) {}

std::int64_t RowShards::first_row(std::int64_t rank) const { return std::min(rank * chunk, rows); }

std::int64_t RowShards::rows_of(std::int64_t rank) const {
  return std::clamp<std::int64_t>(rows - rank * chunk, 0, chunk);
}

bool rows_are_outermost(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) {
    return false;
  }
  return tensor.dim() == 0 || tensor.size(0) <= 1 || tensor.stride(0) == tensor.numel() / tensor.size(0);
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) {
      return false;
    }
  }
  return true;
}

at::Tensor shard_view(const at::Tensor& flat, const at::Tensor& whole, const RowShards& shards, std::int64_t rank,
                      std::int64_t offset) {
  const torch::NoGradGuard no_grad;
  if (whole.dim() == 0) {  // one element has no dimension to be empty in
    return flat.narrow(0, offset, shards.rows_of(rank));
  }
  std::vector<std::int64_t> sizes = whole.sizes().vec();
  sizes[0] = shards.rows_of(rank);
  return flat.as_strided(sizes, whole.strides(), flat.storage_offset() + offset);
}

bool travels_alone(const Member& member, std::int64_t ranks, const Options& options) {
  const RowShards rows(member.tensor, ranks);
  const std::int64_t part_bytes = rows.padded_numel() * static_cast<std::int64_t>(member.tensor.element_size());
  return options.after_forward != AfterForward::SmallShard && rows.padded_numel() * ranks == member.tensor.numel() &&
         part_bytes >= options.alone_from_bytes;
}

void sort_for_coalescing(std::vector<Member>& members, std::int64_t ranks, const Options& options) {
  const auto place = [&](const Member& member) {
    const bool alone = travels_alone(member, ranks, options);
    return member.tensor.requires_grad() ? (alone ? 0 : 1) : (alone ? 3 : 2);
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const Member& a, const Member& b) { return place(a) < place(b); });
}

std::vector<Coalesced> coalesce(const std::vector<Member>& members, std::int64_t ranks, const Options& options) {
  std::vector<Coalesced> messages;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool alone = travels_alone(members[i], ranks, options);
    if (alone || messages.empty() || messages.back().in_place) {
      messages.push_back({.first = i, .count = 0, .in_place = alone});
    }
    messages.back().count += 1;
  }
  return messages;
}

GroupLayout::Span GroupLayout::gathered_span(const Coalesced& message) const {
  const std::int64_t begin = slots[message.first].gather_offset;
  const std::size_t end = message.first + message.count;
  return {begin, (end == slots.size() ? gather_bytes : slots[end].gather_offset) - begin};
}

/// Parameters that take gradients come first, in the group and in a message.
GroupLayout::Span GroupLayout::reduced_span(const Coalesced& message) const {
  const std::int64_t begin = slots[message.first].offset;
  const std::size_t end = std::min(message.first + message.count, trainable);
  return {begin, (end == trainable ? reduce_numel : slots[end].offset) - begin};
}

std::vector<Coalesced> GroupLayout::trainable_messages() const {
  std::vector<Coalesced> some;
  std::copy_if(messages.begin(), messages.end(), std::back_inserter(some),
               [this](const Coalesced& message) { return message.first < trainable; });
  return some;
}

}  // namespace rollcall::parallel::fsdp
