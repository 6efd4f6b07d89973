#include "trainer/metrics/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace rollcall::metrics {

void Evaluation::count(std::int64_t label, const std::vector<std::int64_t>& best, double loss) {
  ClassResult& result = classes.at(static_cast<std::size_t>(label));
  const std::int64_t predicted = best.at(0);
  const std::int64_t top1 = predicted == label ? 1 : 0;
  const std::int64_t top5 = std::ranges::find(best, label) != best.end() ? 1 : 0;
  totals += {.loss_sum = loss, .correct_top1 = top1, .correct_top5 = top5, .samples = 1};
  result.images += 1;
  result.correct_top1 += top1;
  result.correct_top5 += top5;
  classes.at(static_cast<std::size_t>(predicted)).predicted += 1;
  confusion[{label, predicted}] += 1;
}

void SeveralLabels::count(std::span<const std::uint32_t> own, const std::vector<std::int64_t>& best,
                          const std::vector<double>& probabilities, double loss) {
  constexpr std::size_t kTop = 5;
  RunningAverage image{.loss_sum = loss, .samples = 1};
  for (std::size_t i = 0; i < best.size(); ++i) {
    const auto number = static_cast<std::size_t>(best[i]);
    const bool is_own = std::ranges::find(own, number) != own.end();
    const bool is_taken = probabilities[i] >= 0.5;
    scores_[number].push_back({probabilities[i], is_own});
    ClassResult& result = evaluation_.classes[number];
    result.images += is_own ? 1 : 0;
    result.correct_top1 += is_own && i == 0 ? 1 : 0;
    result.correct_top5 += is_own && i < kTop ? 1 : 0;
    result.predicted += is_taken ? 1 : 0;
    result.correct += is_own && is_taken ? 1 : 0;
    image.correct_top1 = is_own && i == 0 ? 1 : image.correct_top1;
    image.correct_top5 = is_own && i < kTop ? 1 : image.correct_top5;
  }
  evaluation_.totals += image;
}

void SeveralLabels::finish() {
  double sum = 0;
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    evaluation_.classes[i].average_precision = average_precision(std::move(scores_[i]));
    sum += evaluation_.classes[i].average_precision;
  }
  evaluation_.mean_average_precision = sum / static_cast<double>(scores_.size());
}

std::string evaluation_json(const Evaluation& evaluation) {
  using Json = nlohmann::ordered_json;
  const RunningAverage& totals = evaluation.totals;
  const std::optional<double>& precision = evaluation.mean_average_precision;
  Json classes = Json::array();
  for (const ClassResult& one : evaluation.classes) {
    classes.push_back({{"name", one.name},
                       {"images", one.images},
                       {"correct_top1", one.correct_top1},
                       {"correct_top5", one.correct_top5},
                       {"predicted", one.predicted}});
    if (precision) {
      classes.back()["correct"] = one.correct;
      classes.back()["average_precision"] = one.average_precision;
    }
  }
  Json confusion = Json::array();
  for (const auto& [pair, images] : evaluation.confusion) {
    confusion.push_back({pair.first, pair.second, images});
  }
  Json json{
      {"schema", 1},
      {"checkpoint", evaluation.checkpoint},
      {"model", evaluation.model},
      {"data", evaluation.data},
      {"split", evaluation.split},
      {"images", totals.samples},
      {"damaged", totals.damaged},
      {"unread", totals.unread},
      {"top1", totals.top1()},
      {"top5", totals.top5()},
      {"loss", totals.loss()},
      {"correct_top1", totals.correct_top1},
      {"correct_top5", totals.correct_top5},
      {"seconds", evaluation.seconds},
      {"ranks", evaluation.ranks},
      {"classes", std::move(classes)},
      {"confusion", std::move(confusion)},
  };
  if (precision) {
    json["mean_average_precision"] = *precision;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Evaluation> parse_evaluation(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    Evaluation read;
    json.at("checkpoint").get_to(read.checkpoint);
    json.at("model").get_to(read.model);
    json.at("data").get_to(read.data);
    json.at("split").get_to(read.split);
    read.totals = {.correct_top1 = json.at("correct_top1").get<std::int64_t>(),
                   .correct_top5 = json.at("correct_top5").get<std::int64_t>(),
                   .samples = json.at("images").get<std::int64_t>(),
                   .damaged = json.at("damaged").get<std::int64_t>(),
                   .unread = json.at("unread").get<std::int64_t>()};
    const auto& loss = json.at("loss");  // null: it is not finite
    read.totals.loss_sum = (loss.is_number() ? loss.get<double>() : NAN) * static_cast<double>(read.totals.samples);
    json.at("seconds").get_to(read.seconds);
    json.at("ranks").get_to(read.ranks);
    for (const auto& one : json.at("classes")) {
      read.classes.push_back({one.at("name").get<std::string>(), one.at("images").get<std::int64_t>(),
                              one.at("correct_top1").get<std::int64_t>(), one.at("correct_top5").get<std::int64_t>(),
                              one.at("predicted").get<std::int64_t>(), one.value("correct", std::int64_t{0}),
                              one.value("average_precision", 0.0)});
    }
    if (const auto precision = json.find("mean_average_precision"); precision != json.end()) {
      read.mean_average_precision = precision->get<double>();
    }
    const auto classes = static_cast<std::int64_t>(read.classes.size());
    for (const auto& cell : json.at("confusion")) {
      const auto label = cell.at(0).get<std::int64_t>();
      const auto predicted = cell.at(1).get<std::int64_t>();
      if (std::min(label, predicted) < 0 || std::max(label, predicted) >= classes) {
        return std::nullopt;
      }
      read.confusion[{label, predicted}] = cell.at(2).get<std::int64_t>();
    }
    return read;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string classes_csv(const Evaluation& evaluation) {
  const bool several = evaluation.mean_average_precision.has_value();
  std::string csv = "label,class,images,correct_top1,correct_top5,predicted";
  csv += several ? ",correct,average_precision\n" : "\n";
  for (std::size_t label = 0; label < evaluation.classes.size(); ++label) {
    const ClassResult& one = evaluation.classes[label];
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{}{}\n", label, csv_cell(one.name), one.images,
                   one.correct_top1, one.correct_top5, one.predicted,
                   several ? fmt::format(",{},{:.9g}", one.correct, one.average_precision) : "");
  }
  return csv;
}

std::string confusion_csv(const Evaluation& evaluation) {
  std::string csv = "class,predicted,images\n";
  for (const auto& [pair, images] : evaluation.confusion) {
    const auto name = [&](std::int64_t label) {
      return csv_cell(evaluation.classes[static_cast<std::size_t>(label)].name);
    };
    fmt::format_to(std::back_inserter(csv), "{},{},{}\n", name(pair.first), name(pair.second), images);
  }
  return csv;
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + '"';
}

}  // namespace rollcall::metrics
