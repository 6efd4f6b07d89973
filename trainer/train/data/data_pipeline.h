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
#include "trainer/data/loader/device_prefetcher.h"
#include "trainer/data/loader/loader.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/distributed/ddp/exact_replica.h"
#include "trainer/train/job_context.h"
#include "trainer/train/workers.h"

namespace rollcall::train {

/// One rank's part of the data.
struct DataPipeline {
  data::Datasets datasets;
  std::unique_ptr<data::Sampler> train_sampler;
  std::unique_ptr<data::Sampler> valid_sampler;
  std::unique_ptr<data::Loader> train_loader;
  std::unique_ptr<data::Loader> valid_loader;
  std::unique_ptr<data::DevicePrefetcher> prefetcher;  ///< copies batches of both loaders to the device of the model
  data::LoaderOptions train_loading;
  data::LoaderOptions valid_loading;
  std::vector<std::uint32_t> near_cpus;  ///< CPUs of this process near the device; empty: any CPU
  std::uint32_t sharing_ranks = 1;       ///< NodeShare::sharing
  WorkerTuning tuning;                   ///< adjusts the training loader's workers
  std::vector<std::string> warnings;

  /// Replaces the training loader by one with `workers` workers, which continues at `next_batch` of the sampler's
  /// epoch. Its batches have the same bits as without the change. Errors (Unavailable): the threads cannot be started.
  [[nodiscard]] Result<void> continue_with_workers(int workers, std::int64_t next_batch);
};

/// Creates this rank's part: training data of `ranks`, validation data of this rank. `computes_in`: the type in which
/// the model computes, to which a device with rollcall's own kernels converts uint8 images. Errors: a batch is larger
/// than the data; the rank has no memory for the batches read ahead.
[[nodiscard]] Result<DataPipeline> make_data_pipeline(data::Datasets datasets, const config::DataConfig& config,
                                                      const JobContext& context, const parallel::VirtualRanks& ranks,
                                                      c10::ScalarType computes_in = at::kFloat);

/// Returns the options of a loader of validation images. `computes_in`: as for make_data_pipeline().
[[nodiscard]] data::LoaderOptions loading_for_validation(const config::DataConfig& config, const NodeShare& share,
                                                         const device::Device& device, c10::ScalarType computes_in);

/// Returns what copies batches to the rank's device. `computes_in`: as for make_data_pipeline().
[[nodiscard]] std::unique_ptr<data::DevicePrefetcher> make_prefetcher(const JobContext& context,
                                                                      const data::Normalisation& normalisation,
                                                                      c10::ScalarType computes_in);

/// Returns "each rank loads with 2 workers (auto: 8 CPUs, 6 of them for computing), 4 batches read ahead (735.0 MiB);
/// for validation ...". On a device validation has the same memory.
[[nodiscard]] std::string describe_loading(const DataPipeline& pipeline, const config::DataConfig& config,
                                           const NodeShare& share);

/// Implements --benchmark-data: reads the training set for `benchmark-epochs` epochs with the settings' loader and
/// discards the batches. Prints images per second, per second of CPU time, and the time of each stage, for people or as
/// one JSON object on the last line, if `prints`. The first of several epochs is a warm-up and is not counted. No
/// process group. Errors: those of the configuration, the data pipeline and the loader.
[[nodiscard]] Result<void> benchmark_data(const settings::Settings& settings, const Environment& environment, bool json,
                                          bool prints);

}  // namespace rollcall::train
