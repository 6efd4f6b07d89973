#include "trainer/train/inference/classify.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "trainer/data/loader/device_prefetcher.h"
#include "trainer/data/loader/loader.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"
#include "trainer/train/data/data_pipeline.h"
#include "trainer/train/step/loss.h"
#include "trainer/train/step/totals.h"
#include "trainer/train/step/training.h"

namespace rollcall::train {
namespace {

/// The images with the model's labels. An image that cannot be read is black, and its error is kept: a loader would put
/// another image in its place, and not say which.
class TolerantDataset final : public data::Dataset {
 public:
  TolerantDataset(const ImagesToClassify& images, bool tolerates) : images_(images), tolerates_(tolerates) {}

  [[nodiscard]] std::int64_t size() const override { return images_.dataset->size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return images_.dataset->class_names(); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return images_.dataset->label(index); }
  [[nodiscard]] std::string describe(std::int64_t index) const override { return images_.dataset->describe(index); }
  [[nodiscard]] const data::LabelSets* label_sets() const override { return images_.label_sets.get(); }

  [[nodiscard]] Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch, const data::OutputPixels& out,
                                          data::Workspace& workspace) const override {
    Result<std::int64_t> label = images_.dataset->read(index, epoch, out, workspace);
    if (label && images_.label_sets) {
      return label;
    }
    if (label) {
      return images_.outputs.empty() ? 0 : images_.outputs[static_cast<std::size_t>(*label)];
    }
    const ErrorKind kind = label.error().kind;
    if (!tolerates_ || (kind != ErrorKind::BadData && kind != ErrorKind::NoInput && kind != ErrorKind::InputOutput)) {
      return label;
    }
    std::memset(out.data, 0, out.elements() * data::bytes_of(out.type));
    const std::lock_guard lock(mutex_);
    errors_.insert_or_assign(index, label.error());
    return std::int64_t{0};
  }

  /// Returns why the image could not be read, once.
  std::optional<Error> take_error(std::int64_t index) const {
    const std::lock_guard lock(mutex_);
    const auto found = errors_.extract(index);
    return found ? std::optional(found.mapped()) : std::nullopt;
  }

 private:
  const ImagesToClassify images_;
  const bool tolerates_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, Error> errors_;
};

/// Returns the predictions of one rank's batch; `first`: index of its first image.
std::vector<Prediction> predictions_of(const at::Tensor& outputs, const at::Tensor& labels,
                                       const config::TrainConfig& config, std::int64_t top, std::int64_t first,
                                       const TolerantDataset& dataset) {
  const auto [values, classes] = outputs.topk(std::min(top, outputs.size(1)), 1);
  const at::Tensor best = classes.cpu();
  const bool several = config.data.datasets.several_labels;
  const at::Tensor of_all = several ? outputs.to(at::kDouble).sigmoid() : outputs.softmax(1);
  const at::Tensor probabilities = of_all.gather(1, classes).to(at::kDouble).cpu();
  const at::Tensor losses = losses_of(outputs, labels, config.optim.loss).to(at::kDouble).cpu();
  const at::Tensor of_image = labels.dim() == 1 ? labels.cpu() : torch::zeros({labels.size(0)}, at::kLong);
  std::vector<Prediction> found;
  for (std::int64_t i = 0; i < outputs.size(0); ++i) {
    const std::int64_t* const row = best.const_data_ptr<std::int64_t>() + i * best.size(1);
    const double* const chances = probabilities.const_data_ptr<double>() + i * best.size(1);
    found.push_back({.index = first + i,
                     .label = of_image.const_data_ptr<std::int64_t>()[i],
                     .classes = {row, row + best.size(1)},
                     .probabilities = {chances, chances + best.size(1)},
                     .loss = losses.const_data_ptr<double>()[i],
                     .unreadable = dataset.take_error(first + i)});
  }
  return found;
}

nlohmann::json to_json(const std::vector<Prediction>& predictions) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Prediction& one : predictions) {
    const std::string error = one.unreadable ? serialise(Result<void>(*one.unreadable)) : "";
    rows.push_back({one.index, one.label, one.classes, one.probabilities, one.loss,
                    nlohmann::json::binary({error.begin(), error.end()})});
  }
  return rows;
}

void append(std::vector<Prediction>& predictions, const nlohmann::json& rows) {
  for (const nlohmann::json& row : rows) {
    const auto& error = row.at(5).get_binary();
    const auto outcome = parse_outcome(std::string(error.begin(), error.end()));
    predictions.push_back({.index = row.at(0).get<std::int64_t>(),
                           .label = row.at(1).get<std::int64_t>(),
                           .classes = row.at(2).get<std::vector<std::int64_t>>(),
                           .probabilities = row.at(3).get<std::vector<double>>(),
                           .loss = row.at(4).get<double>(),
                           .unreadable = outcome && !*outcome ? std::optional(outcome->error()) : std::nullopt});
  }
}

/// Returns on rank 0 the predictions of all ranks, which are in the order of the images.
Result<std::vector<Prediction>> gather(const std::vector<Prediction>& mine, const JobContext& context) {
  if (context.world_size == 1) {
    return mine;
  }
  ASSIGN_OR_RETURN(const auto all,
                   process_group::all_gather_bytes(context.process_group, nlohmann::json::to_cbor(to_json(mine))));
  std::vector<Prediction> predictions;
  for (std::size_t rank = 0; context.rank == 0 && rank < all.size(); ++rank) {
    append(predictions, nlohmann::json::from_cbor(all[rank]));
  }
  return predictions;
}

}  // namespace

Result<void> classify(model::ImageClassifier& model, const ImagesToClassify& images, std::int64_t top,
                      const config::TrainConfig& config, const JobContext& context, const TakePredictions& take) {
  const torch::NoGradGuard no_grad;
  const c10::ScalarType computes_in = config.model.compute_type.value_or(at::kFloat);
  const data::LoaderOptions loading = loading_for_validation(config.data, context.share, context.device, computes_in);
  const bool tolerates = loading.bad_samples != data::BadSamples::Fail;
  const auto dataset = std::make_shared<const TolerantDataset>(images, tolerates);
  data::Sampler sampler({.dataset_size = dataset->size(),
                         .batch_size = loading.batch_size,
                         .world_size = context.world_size,
                         .rank = context.rank});
  const auto prefetcher = make_prefetcher(context, config.data.datasets.normalisation, computes_in);
  data::Loader loader(dataset, loading);
  RETURN_IF_ERROR(loader.start(sampler));
  for (std::int64_t step = 0; step < sampler.steps(); ++step) {
    ASSIGN_OR_RETURN(std::optional<data::Batch> read, loader.next());
    std::vector<Prediction> mine;
    if (read && read->labels.size(0) > 0) {
      const data::Batch batch = prefetcher->to_device(*std::move(read));
      at::Tensor outputs = outputs_of(model, at::kFloat, config.model, context.device, batch.images);
      if (config.run.valid_flip) {
        outputs = (outputs + outputs_of(model, at::kFloat, config.model, context.device, batch.images.flip(3))) / 2;
      }
      mine = predictions_of(outputs, batch.labels, config, top, sampler.first_position(step), *dataset);
    }
    ASSIGN_OR_RETURN(const std::vector<Prediction> all, gather(mine, context));
    RETURN_IF_ERROR(context.rank == 0 ? take(all) : Result<void>());
  }
  return {};
}

}  // namespace rollcall::train
