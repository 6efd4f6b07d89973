// Mean average precision over the images of all ranks, of more classes than are exchanged at a time.

#include <gtest/gtest.h>
#include <cmath>

#include "tests/support/multiproc.h"
#include "trainer/metrics/average_precision.h"
#include "trainer/torch.h"
#include "trainer/train/step/scores.h"

namespace rollcall::train {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

constexpr std::int64_t kBatches = 4;

/// A batch of a rank; its first image is padding, on rank 0 all are. Scores of few values, so that images share them.
std::pair<at::Tensor, data::Batch> batch_of(std::int64_t rank, std::int64_t number, std::int64_t classes) {
  torch::manual_seed(static_cast<std::uint64_t>(1000 * rank + number));
  const std::int64_t images = 1 + 2 * rank;
  data::Batch batch;
  batch.labels = at::rand({images, classes}).lt(0.2).to(at::kFloat);
  batch.counted = at::ones({images}, at::kBool);
  batch.counted[0] = false;
  return {at::randint(-3, 3, {images, classes}).to(at::kFloat), batch};
}

/// What one process finds that has the images of all ranks.
double expected(std::int64_t world_size, std::int64_t classes) {
  double sum = 0;
  for (std::int64_t i = 0; i < classes; ++i) {
    std::vector<metrics::Scored> images;
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      for (std::int64_t number = 0; number < kBatches; ++number) {
        const auto [outputs, batch] = batch_of(rank, number, classes);
        for (std::int64_t image = 1; image < outputs.size(0); ++image) {
          images.push_back({outputs[image][i].item<double>(), batch.labels[image][i].item<float>() == 1});
        }
      }
    }
    sum += metrics::average_precision(images);
  }
  return sum / static_cast<double>(classes);
}

TEST(Scores, HaveTheMeanAveragePrecisionOfAllRanksImages) {
  const auto ranks = spawn(3, [](Rank& rank) {
    JobContext context;
    context.rank = rank.rank;
    context.world_size = rank.world_size;
    context.process_group = rank.make_group();
    for (const std::int64_t classes : {2, 64, 150}) {
      Scores scores;
      for (std::int64_t number = 0; number < kBatches; ++number) {
        const auto [outputs, batch] = batch_of(rank.rank, number, classes);
        scores.add(outputs, batch);
      }
      const double found = scores.mean_average_precision(context);
      MULTIPROC_CHECK(found > 0.1 && std::abs(found - expected(3, classes)) < 1e-12);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::train
