#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/config/train_config.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/data/loader/loader.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/model/device.h"

namespace rollcall::train {

/// A rank's part of the data.
struct DataPipeline {
  data::Datasets datasets;
  std::unique_ptr<data::Sampler> train_sampler;
  std::unique_ptr<data::Sampler> valid_sampler;
  std::unique_ptr<data::Loader> train_loader;
  std::unique_ptr<data::Loader> valid_loader;
  int train_workers = 0;
  std::vector<std::string> warnings;
};

/// For batches that go to `device`. Errors: data set missing, empty class, batch larger than the data, sizes and ranges
/// that do not fit together.
[[nodiscard]] Result<DataPipeline> make_data_pipeline(const config::DataConfig& config, std::uint32_t rank,
                                                      std::uint32_t world_size, const model::Device& device);

/// How many workers a loader gets: the number asked for, or else the CPUs that this process may use beyond those that
/// compute, at least 1.
[[nodiscard]] int number_of_workers(std::optional<int> asked, std::uint32_t cpus, int compute_threads);

/// --benchmark-data: reads the training set for `benchmark-epochs` epochs with the settings' loader and throws the
/// batches away; prints images per second, per second of CPU time, and where the time went: for people, or as one JSON
/// object on the last line. The first of several epochs warms up and is not counted. One process, no process group.
/// Errors: those of the configuration, the data pipeline and the loader.
[[nodiscard]] Result<void> benchmark_data(const settings::Settings& settings, const Environment& environment,
                                          bool json);

}  // namespace rollcall::train
