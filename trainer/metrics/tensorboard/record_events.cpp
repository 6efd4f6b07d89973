#include "trainer/metrics/tensorboard/record_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "trainer/metrics/tensorboard/event.h"

namespace rollcall::metrics::tensorboard {
namespace {

/// The curve for a number of a record.
struct Curve {
  std::string_view event;
  std::string_view name;
  const char* tag;
  bool zero_is_unknown = false;
};

constexpr std::array kCurves{
    Curve{"step", "loss", "training/loss"},
    Curve{"step", "top1", "training/top1"},
    Curve{"step", "top5", "training/top5"},
    Curve{"step", "learning_rate", "training/learning_rate"},
    Curve{"step", "gradient_norm", "training/gradient_norm"},
    Curve{"step", "loss_scale", "training/loss_scale"},
    Curve{"step", "images_per_second", "speed/images_per_second", true},
    Curve{"step", "images_per_joule", "speed/images_per_joule"},
    Curve{"step", "gpu_load", "gpu/load"},
    Curve{"step", "gpu_memory_mib", "gpu/memory_mib"},
    Curve{"step", "gpu_watts", "gpu/watts"},
    Curve{"validation", "loss", "validation/loss"},
    Curve{"validation", "top1", "validation/top1"},
    Curve{"validation", "top5", "validation/top5"},
    Curve{"validation", "mean_average_precision", "validation/mean_average_precision"},
    Curve{"validation", "ema_loss", "validation/ema_loss"},
    Curve{"validation", "ema_top1", "validation/ema_top1"},
    Curve{"validation", "ema_top5", "validation/ema_top5"},
    Curve{"validation", "ema_mean_average_precision", "validation/ema_mean_average_precision"}};

/// Returns the number with this name, or NaN where there is none.
double number_of(const Record& record, std::string_view name) {
  const auto found = std::ranges::find(record, name, [](const auto& field) { return std::string_view(field.first); });
  if (found == record.end()) {
    return std::nan("");
  }
  if (const auto* const whole = std::get_if<std::int64_t>(&found->second)) {
    return static_cast<double>(*whole);
  }
  const auto* const real = std::get_if<double>(&found->second);
  return real != nullptr ? *real : std::nan("");
}

std::string text_of(const Record& record, std::string_view name) {
  for (const auto& [field, value] : record) {
    if (const auto* const plain = std::get_if<std::string>(&value); field == name && plain != nullptr) {
      return *plain;
    }
    if (const auto* const json = std::get_if<RawJson>(&value); field == name && json != nullptr) {
      return json->text;
    }
  }
  return "";
}

std::vector<Scalar> points_of(const Record& record, std::string_view event) {
  std::vector<Scalar> points;
  for (const Curve& curve : kCurves) {
    const double value = curve.event == event ? number_of(record, curve.name) : std::nan("");
    if (std::isfinite(value) && !(curve.zero_is_unknown && value == 0)) {
      points.push_back({curve.tag, value});
    }
  }
  return points;
}

/// Returns `text` as a Markdown code span, with more backticks around it than inside, so that it is shown unchanged.
std::string code_span(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' '; }, ' ');
  if (text.empty()) {
    return "";
  }
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  const char* const gap = longest > 0 ? " " : "";
  return fence + gap + text + gap + fence;
}

}  // namespace

std::string settings_table(const std::string& json) {
  const auto settings = nlohmann::ordered_json::parse(json, nullptr, false);
  std::string table = "| setting | value | origin |\n|---|---|---|\n";
  if (!settings.is_object()) {
    return table;
  }
  for (const auto& [name, setting] : settings.items()) {
    const auto shown = [&of = setting](const char* part) {
      const bool there = of.is_object() && of.contains(part);
      return !there ? "" : code_span(of[part].is_string() ? of[part].template get<std::string>() : of[part].dump());
    };
    table += fmt::format("| {} | {} | {} |\n", code_span(name), shown("value"), shown("origin"));
  }
  return table;
}

/// Returns the settings and their values.
std::vector<std::pair<std::string, std::string>> values_of(const std::string& json) {
  const auto settings = nlohmann::ordered_json::parse(json, nullptr, false);
  std::vector<std::pair<std::string, std::string>> values;
  if (!settings.is_object()) {
    return values;
  }
  for (const auto& [name, setting] : settings.items()) {
    if (setting.is_object() && setting.contains("value")) {
      const auto& value = setting["value"];
      values.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return values;
}

std::vector<std::string> events_of(const Record& record) {
  const std::string event = text_of(record, "event");
  const double step = number_of(record, "step");
  const Moment moment{number_of(record, "time"), std::isfinite(step) ? static_cast<std::int64_t>(step) : 0};
  if (event == "begin") {
    return {encode_session_start({moment.time, moment.step + 1}),
            encode_text(moment, "settings", settings_table(text_of(record, "settings"))),
            encode_hyperparameters(moment, values_of(text_of(record, "settings")))};
  }
  const std::vector<Scalar> points = points_of(record, event);
  return points.empty() ? std::vector<std::string>() : std::vector{encode_scalars(moment, points)};
}

}  // namespace rollcall::metrics::tensorboard
