#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/base/result.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader/batch.h"
#include "trainer/data/sampling/sampler.h"

namespace rollcall::data {

/// What a sample that cannot be read does: it is named and left out, or it ends the run.
enum class BadSamples { Skip, Fail };

struct LoaderOptions {
  int workers = 0;              ///< threads that read samples; 0: next() reads them itself
  int prefetch = 2;             ///< batches read ahead, per worker; at least 1
  std::int64_t batch_size = 1;  ///< most samples of a batch: the sampler's batch size
  int image_size = 224;         ///< the data set's
  BadSamples bad_samples = BadSamples::Skip;
};

/// Reads a sampler's batches with worker threads, ahead of the training loop and in the sampler's order.
///
/// Workers take single samples, so even the first batch is read by all of them; the batches are the same bits with any
/// number of workers. At most workers * prefetch batches exist besides those handed out.
///
/// A bad sample under Skip is named in Batch::bad, and the next good sample of the batch (cyclically) takes its place
/// with counted = false: shapes stay, and a loss averaged over n counts that neighbour twice. A batch without a good
/// sample is an Error; so is any bad sample under Fail.
///
/// The workers call nothing but Dataset::read. The loader itself belongs to one thread; its destructor and a new
/// start() stop the workers after the sample that each is reading.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins to read the sampler's steps from `first_step` on. The sampler (its epoch set) is copied; `epoch` goes to
  /// Dataset::read. What was left of an epoch before is dropped.
  void start(const Sampler& sampler, std::uint64_t epoch, std::int64_t first_step = 0);

  /// The next batch, waiting for it; nothing after the last. After an Error the epoch is over. A batch of no samples
  /// (see Sampler) has tensors with n = 0. Errors: a bad sample under Fail (the first of the batch); BadData under Skip
  /// where a whole batch is bad; Internal where reading threw.
  [[nodiscard]] Result<std::optional<Batch>> next();

 private:
  class Epoch;

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::unique_ptr<Epoch> epoch_;
};

}  // namespace rollcall::data
