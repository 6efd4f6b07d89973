#include "trainer/distributed/fsdp/bundles.h"

#include <algorithm>

namespace rollcall::parallel::fsdp {

bool travels_alone(const Member& member, std::int64_t ranks, const Options& options) {
  const RowShards rows(member.tensor, ranks);
  const std::int64_t part_bytes = rows.padded_numel() * static_cast<std::int64_t>(member.tensor.element_size());
  return options.after_forward != AfterForward::SmallShard && rows.padded_numel() * ranks == member.tensor.numel() &&
         part_bytes >= options.alone_from_bytes;
}

void sort_for_travel(std::vector<Member>& members, std::int64_t ranks, const Options& options) {
  const auto place = [&](const Member& member) {
    const bool alone = travels_alone(member, ranks, options);
    return member.tensor.requires_grad() ? (alone ? 0 : 1) : (alone ? 3 : 2);
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const Member& a, const Member& b) { return place(a) < place(b); });
}

std::vector<Bundle> bundles_of(const std::vector<Member>& members, std::int64_t ranks, const Options& options) {
  std::vector<Bundle> bundles;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool alone = travels_alone(members[i], ranks, options);
    if (alone || bundles.empty() || bundles.back().in_place) {
      bundles.push_back({.first = i, .count = 0, .in_place = alone});
    }
    bundles.back().count += 1;
  }
  return bundles;
}

}  // namespace rollcall::parallel::fsdp
