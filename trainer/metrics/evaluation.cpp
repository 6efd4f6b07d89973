#include "trainer/metrics/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

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

std::string evaluation_json(const Evaluation& evaluation) {
  using Json = nlohmann::ordered_json;
  const RunningAverage& totals = evaluation.totals;
  Json classes = Json::array();
  for (const ClassResult& one : evaluation.classes) {
    classes.push_back({{"name", one.name},
                       {"images", one.images},
                       {"correct_top1", one.correct_top1},
                       {"correct_top5", one.correct_top5},
                       {"predicted", one.predicted}});
  }
  Json confusion = Json::array();
  for (const auto& [pair, images] : evaluation.confusion) {
    confusion.push_back({pair.first, pair.second, images});
  }
  const Json json{
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
                              one.at("predicted").get<std::int64_t>()});
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
  std::string csv = "label,class,images,correct_top1,correct_top5,predicted\n";
  for (std::size_t label = 0; label < evaluation.classes.size(); ++label) {
    const ClassResult& one = evaluation.classes[label];
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{}\n", label, csv_cell(one.name), one.images,
                   one.correct_top1, one.correct_top5, one.predicted);
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
