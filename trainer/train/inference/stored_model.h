#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/train_config.h"
#include "trainer/model/image_classifier.h"
#include "trainer/train/job_context.h"

// A model that a training has left in a file, for evaluation and prediction. Every rank has the whole model, whichever
// ranks wrote the file. All functions are collective, with the same errors on all ranks.
namespace rollcall::train {

/// Returns what the file says about its model, which rank 0 reads. `setting`: for messages. Errors: those of
/// checkpoint::read_stored_model().
[[nodiscard]] Result<checkpoint::StoredModel> read_stored_model(const std::string& path, const std::string& setting,
                                                                const JobContext& context);

/// Creates the model of `config` with the weights of the file, on the rank's device and in eval(). This function alone
/// chooses which of a file's weights are used. Errors: those of checkpoint::init_from(); Mismatch: --num-classes is not
/// the number of the file's classes.
[[nodiscard]] Result<model::Model> load_stored_model(const std::string& path, const std::string& setting,
                                                     const checkpoint::StoredModel& stored,
                                                     const config::TrainConfig& config, const JobContext& context);

/// Returns the name of each output of the model: the file's, else those of the data, else numbers.
[[nodiscard]] std::vector<std::string> names_of_outputs(const checkpoint::StoredModel& stored,
                                                        const std::vector<std::string>& of_data = {});

/// Returns the model's output for each label of the data. They are matched by the names of the classes if both sides
/// have names, else by number. `given`: --data. Error (Mismatch): the model does not know a class of the data. Pure.
[[nodiscard]] Result<std::vector<std::int64_t>> outputs_of_labels(const checkpoint::StoredModel& stored,
                                                                  const std::vector<std::string>& of_data,
                                                                  const std::string& given);

}  // namespace rollcall::train
