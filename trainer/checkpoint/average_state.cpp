#include <optional>

#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/training_state.h"

namespace rollcall::checkpoint {

using format::schema::average_path;

void add_average(StateParts& parts, const optim::WeightAverage& average, const Sharding* sharding) {
  for (const auto& entry : average.parameters()) {
    const auto shard = sharding != nullptr ? sharding->shard(entry.key()) : std::nullopt;
    if (shard) {
      parts.add(average_path(entry.key()), "", *shard, entry.value(), sharding->writes());
    } else {
      parts.add(average_path(entry.key()), "", entry.value());
    }
  }
  for (const auto& entry : average.buffers()) {
    parts.add_from_rank_zero(average_path(entry.key()), "", entry.value());
  }
}

Result<bool> plan_average(ReadPlan& reads, const optim::WeightAverage& average, const torch::nn::Module& model,
                          const Sharding* sharding, const OpenCheckpoint& stored) {
  const auto whole = model.named_parameters();
  std::size_t missing = 0;
  for (const auto* const part : {&average.parameters(), &average.buffers()}) {
    for (const auto& entry : *part) {
      const format::ManifestEntry* const source = stored.tensor(average_path(entry.key()));
      const auto shard = sharding != nullptr ? sharding->shard(entry.key()) : std::nullopt;
      const at::Tensor* const parameter = whole.find(entry.key());
      const at::IntArrayRef sizes = parameter != nullptr ? parameter->sizes() : entry.value().sizes();
      if (source == nullptr) {
        missing += 1;
      } else if (const std::string how = difference(entry.key(), sizes, entry.value().scalar_type(), source);
                 !how.empty()) {
        return fail("--resume", stored.source().path(), "has an average of another model: " + how,
                    "using another checkpoint", ErrorKind::BadData);
      } else {
        reads.fill(entry.value(), *source, shard ? shard->first_row : 0);
      }
    }
  }
  const std::size_t all = average.parameters().size() + average.buffers().size();
  if (missing > 0 && missing < all) {
    return fail("--resume", stored.source().path(), "has only a part of the average of the weights",
                "using another checkpoint", ErrorKind::BadData);
  }
  return missing == 0;
}

}  // namespace rollcall::checkpoint
