#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/data/loader/loader.h"
#include "trainer/data/sampling/sampler.h"

namespace rollcall::train {

/// A rank's part of the data, made from the settings.
struct DataPipeline {
  data::Datasets datasets;
  std::unique_ptr<data::Sampler> train_sampler;
  std::unique_ptr<data::Sampler> valid_sampler;
  std::unique_ptr<data::Loader> train_loader;
  std::unique_ptr<data::Loader> valid_loader;
  int train_workers = 0;
  std::vector<std::string> warnings;
};

/// Errors: data set missing, empty class, batch larger than the data, sizes and ranges that do not fit together.
[[nodiscard]] Result<DataPipeline> make_data_pipeline(const settings::Settings& settings, std::uint32_t rank,
                                                      std::uint32_t world_size, const Environment& environment);

/// How many workers a loader gets: the number asked for, or, for "auto", the CPUs that this process may use beyond
/// those that compute, at least 1.
[[nodiscard]] int number_of_workers(const std::string& asked, std::uint32_t cpus, int compute_threads);

}  // namespace rollcall::train
