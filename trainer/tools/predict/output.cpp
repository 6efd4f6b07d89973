#include "trainer/tools/predict/output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "runtime/base/text.h"
#include "trainer/metrics/evaluation.h"

namespace rollcall::predict {

using metrics::csv_cell;
using train::Prediction;

void Output::begin() {
  if (format_ != Format::Csv) {
    return;
  }
  out_ << "path,error";
  for (std::int64_t i = 1; i <= top_; ++i) {
    out_ << fmt::format(",label{0},class{0},probability{0}", i);
  }
  out_ << "\n";
}

void Output::write(const std::string& path, const Prediction& prediction) {
  switch (format_) {
    case Format::Table:
      return write_table(path, prediction);
    case Format::Json:
      return write_json(path, prediction);
    case Format::Csv:
      return write_csv(path, prediction);
  }
}

void Output::write_table(const std::string& path, const Prediction& prediction) {
  if (prediction.unreadable) {
    return;
  }
  out_ << printable(path);
  for (std::size_t i = 0; i < prediction.classes.size(); ++i) {
    out_ << fmt::format("  {} {:.2f} %", printable(name(prediction.classes[i])), 100 * prediction.probabilities[i]);
  }
  out_ << "\n";
}

void Output::write_json(const std::string& path, const Prediction& prediction) {
  using Json = nlohmann::ordered_json;
  Json json{{"path", path}};
  if (prediction.unreadable) {
    json["error"] = prediction.unreadable->reason;
  }
  for (std::size_t i = 0; !prediction.unreadable && i < prediction.classes.size(); ++i) {
    const std::int64_t label = prediction.classes[i];
    json["classes"].push_back({{"label", label}, {"class", name(label)}, {"probability", prediction.probabilities[i]}});
  }
  out_ << json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

void Output::write_csv(const std::string& path, const Prediction& prediction) {
  out_ << csv_cell(path) << "," << (prediction.unreadable ? csv_cell(prediction.unreadable->reason) : "");
  for (std::size_t i = 0; i < static_cast<std::size_t>(top_); ++i) {
    out_ << (prediction.unreadable ? ",,,"
                                   : fmt::format(",{},{},{:.9g}", prediction.classes[i],
                                                 csv_cell(name(prediction.classes[i])), prediction.probabilities[i]));
  }
  out_ << "\n";
}

}  // namespace rollcall::predict
