#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/config/train_config.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/data/loader/batch_copies.h"
#include "trainer/data/loader/loader.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/distributed/ddp/exact_replica.h"
#include "trainer/train/workers.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// A rank's part of the data.
struct DataPipeline {
  data::Datasets datasets;
  std::unique_ptr<data::Sampler> train_sampler;
  std::unique_ptr<data::Sampler> valid_sampler;
  std::unique_ptr<data::Loader> train_loader;
  std::unique_ptr<data::Loader> valid_loader;
  std::unique_ptr<data::BatchCopies> copies;  ///< of both loaders' batches to where the model computes
  data::LoaderOptions train_loading;
  data::LoaderOptions valid_loading;
  std::vector<std::uint32_t> near_cpus;  ///< of this process's those near the device; empty: it does not matter
  std::uint32_t sharing_ranks = 1;       ///< NodeShare::sharing
  WorkerTuning tuning;                   ///< of the training loader's workers
  std::vector<std::string> warnings;

  /// Makes the training loader anew with so many workers; it goes on with `next_batch` of the sampler's epoch, and its
  /// batches are the same bits as without the change. Errors (Unavailable): so many threads cannot be started.
  [[nodiscard]] Result<void> continue_with_workers(int workers, std::int64_t next_batch);
};

/// This rank's part: for training that of `ranks`, for validation its own. `computes_in`: what images of levels become
/// on a device that has the project's own kernels. Errors: a batch larger than the data,
/// batches read ahead that the rank has no memory for.
[[nodiscard]] Result<DataPipeline> make_data_pipeline(data::Datasets datasets, const config::DataConfig& config,
                                                      const World& world, const parallel::VirtualRanks& ranks,
                                                      c10::ScalarType computes_in = at::kFloat);

/// "each rank loads with 2 workers (auto: 8 CPUs, 6 compute), 4 batches read ahead (735.0 MiB); for validation ...".
[[nodiscard]] std::string describe_loading(const DataPipeline& pipeline, const config::DataConfig& config,
                                           const NodeShare& share);

/// --benchmark-data: reads the training set for `benchmark-epochs` epochs with the settings' loader and throws the
/// batches away; prints images per second, per second of CPU time, and where the time went: for people, or as one JSON
/// object on the last line. The first of several epochs warms up and is not counted. One process, no process group.
/// Errors: those of the configuration, the data pipeline and the loader.
[[nodiscard]] Result<void> benchmark_data(const settings::Settings& settings, const Environment& environment,
                                          bool json);

}  // namespace rollcall::train
