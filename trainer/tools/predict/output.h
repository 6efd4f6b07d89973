#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "trainer/train/inference/classify.h"

namespace rollcall::predict {

enum class Format { Table, Json, Csv };

/// Writes predictions, a line for each image.
class Output {
 public:
  /// `names`: of the classes; `top`: number of classes of each image, at most as many as there are.
  Output(std::ostream& out, Format format, std::vector<std::string> names, std::int64_t top)
      : out_(out), format_(format), names_(std::move(names)), top_(top) {}

  /// Writes the heading, if the format has one.
  void begin();
  /// Writes the line of the image `path`. Of an unreadable one JSON and CSV have the reason, and the table has no line.
  void write(const std::string& path, const train::Prediction& prediction);

 private:
  void write_table(const std::string& path, const train::Prediction& prediction);
  void write_json(const std::string& path, const train::Prediction& prediction);
  void write_csv(const std::string& path, const train::Prediction& prediction);
  [[nodiscard]] const std::string& name(std::int64_t label) const { return names_[static_cast<std::size_t>(label)]; }

  std::ostream& out_;
  Format format_;
  std::vector<std::string> names_;
  std::int64_t top_;
};

}  // namespace rollcall::predict
