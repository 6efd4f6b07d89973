#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/data/datasets/dataset.h"
#include "trainer/model/image_classifier.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// What the model says about one image.
struct Prediction {
  std::int64_t index = 0;             ///< of the image in its data set
  std::int64_t label = 0;             ///< output of the model that the image belongs to, if it has one class
  std::vector<std::int64_t> classes;  ///< the most probable outputs, the best first
  std::vector<double> probabilities;  ///< of these, by softmax, or sigmoid if images may have several classes
  double loss = 0;                    ///< with the image's label
  std::optional<Error> unreadable{};  ///< the image cannot be read: index alone has a meaning
};

/// The images to classify.
struct ImagesToClassify {
  std::shared_ptr<const data::Dataset> dataset;
  std::vector<std::int64_t> outputs;  ///< output for each label of the data set; empty: the labels have no meaning
  std::shared_ptr<const data::LabelSets> label_sets = {};  ///< of the outputs, if images may have several classes
};

using TakePredictions = std::function<Result<void>(const std::vector<Prediction>&)>;

/// Classifies all images, each once, with the batches and workers of the validation of `config`. The ranks share them.
/// `take` gets the `top` best classes on rank 0, in the order of the data set, after each batch. With
/// BadSamples::Skip, an image that cannot be read has its own error. Collective. Errors: with BadSamples::Fail such an
/// image; those of `take`; Unavailable: a peer was lost.
[[nodiscard]] Result<void> classify(model::ImageClassifier& model, const ImagesToClassify& images, std::int64_t top,
                                    const config::TrainConfig& config, const JobContext& context,
                                    const TakePredictions& take);

}  // namespace rollcall::train
