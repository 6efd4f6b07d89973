#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/metrics/average_precision.h"
#include "trainer/metrics/running_average.h"

namespace rollcall::metrics {

/// The results for the images of one class.
struct ClassResult {
  std::string name;
  std::int64_t images = 0;
  std::int64_t correct_top1 = 0;
  std::int64_t correct_top5 = 0;
  std::int64_t predicted = 0;  ///< images of any class that the model takes for this one
  // Where images may have several classes, the model takes an image for all with a probability of at least 1/2.
  std::int64_t correct = 0;  ///< images of the class that the model takes for it
  double average_precision = 0;

  [[nodiscard]] double top1() const {
    return images > 0 ? static_cast<double>(correct_top1) / static_cast<double>(images) : 0;
  }
};

/// The evaluation of a model on labelled images.
struct Evaluation {
  std::string checkpoint;
  std::string model;
  std::string data;
  std::string split;
  RunningAverage totals;
  double seconds = 0;
  std::int64_t ranks = 1;
  std::vector<ClassResult> classes;  ///< by the model's outputs
  /// Numbers of images by (class, predicted class), without zeros: the confusion matrix.
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> confusion;
  std::optional<double> mean_average_precision{};  ///< set: images may have several classes; there is no matrix

  /// Counts one image of class `label`. `best`: the most probable classes, at least one, at most five.
  void count(std::int64_t label, const std::vector<std::int64_t>& best, double loss);
};

/// Counts images that may have several classes.
class SeveralLabels {
 public:
  /// `evaluation` outlives the object and has its classes.
  explicit SeveralLabels(Evaluation& evaluation) : evaluation_(evaluation), scores_(evaluation.classes.size()) {}

  /// Counts one image with the classes `own`. `best`: all classes, the most probable first; `probabilities`: theirs.
  void count(std::span<const std::uint32_t> own, const std::vector<std::int64_t>& best,
             const std::vector<double>& probabilities, double loss);
  /// Computes the average precisions.
  void finish();

 private:
  Evaluation& evaluation_;
  std::vector<std::vector<Scored>> scores_;  ///< by class
};

// Texts of an evaluation: the JSON of evaluation.json and CSV with a heading. Invalid UTF-8 is replaced in JSON.
[[nodiscard]] std::string evaluation_json(const Evaluation& evaluation);
[[nodiscard]] std::string classes_csv(const Evaluation& evaluation);    ///< a row for each class
[[nodiscard]] std::string confusion_csv(const Evaluation& evaluation);  ///< a row for each number of the matrix

/// Reads the text of evaluation_json(); nothing if it is not such a text.
[[nodiscard]] std::optional<Evaluation> parse_evaluation(std::string_view text);

/// Returns a cell of a CSV file (RFC 4180), quoted if it must be.
[[nodiscard]] std::string csv_cell(std::string_view text);

}  // namespace rollcall::metrics
