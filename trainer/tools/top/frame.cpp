#include "trainer/tools/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "runtime/base/text.h"
#include "trainer/metrics/gpu_meter.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/report/summary.h"

namespace rollcall::top {
namespace {

using report::Run;

constexpr std::array kBlocks{"\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
constexpr std::array kLetters{"_", ".", "-", "~", "=", "+", "*", "#"};
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kWarning = "\x1b[33m";
constexpr std::string_view kPlain = "\x1b[0m";

/// Adds lines to a frame until it is full. Each is cut at the frame's width.
class FrameWriter {
 public:
  explicit FrameWriter(const FrameOptions& look) : look_(look) {}

  /// `text` is ASCII or has names that may be UTF-8; it is cut between characters.
  void line(const std::string& text, std::string_view style = {}) {
    if (lines_.size() == look_.height) {
      return;
    }
    const std::string cut = cut_at_width(printable(text));
    lines_.push_back(look_.colours && !style.empty() ? fmt::format("{}{}{}", style, cut, kPlain) : cut);
  }
  [[nodiscard]] std::size_t room() const { return look_.height - lines_.size(); }
  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  [[nodiscard]] std::string cut_at_width(const std::string& text) const {
    std::size_t columns = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool begins_character = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
      if (begins_character && ++columns > look_.width) {
        return text.substr(0, i);
      }
    }
    return text;
  }

  const FrameOptions& look_;
  std::vector<std::string> lines_;
};

std::string progress_bar(const Run& run, std::size_t width) {
  const std::int64_t all = run.all_steps();
  const double done = all > 0 ? std::clamp(static_cast<double>(run.step) / static_cast<double>(all), 0.0, 1.0) : 0;
  const std::string text =
      all > 0 ? fmt::format(" {:.1f} %  step {}/{}", 100 * done, run.step, all) : fmt::format(" step {}", run.step);
  const std::size_t cells = width > text.size() + 12 ? std::min<std::size_t>(width - text.size() - 2, 50) : 0;
  const auto filled = static_cast<std::size_t>(done * static_cast<double>(cells));
  return cells > 0 ? fmt::format("[{}{}]{}", std::string(filled, '#'), std::string(cells - filled, '.'), text)
                   : text.substr(1);
}

std::string time_line(const Run& run, double now) {
  const double left = seconds_remaining(run);
  if (!run.is_alive()) {
    return "";
  }
  std::string text = left >= 0 ? "ETA " + metrics::human_duration(left) : "ETA unknown";
  if (run.job_ends > 0) {
    const double job = run.job_ends - now;
    text += fmt::format("   the job ends in {}{}", metrics::human_duration(std::max(job, 0.0)),
                        left > job ? ", earlier: the next job resumes the training" : "");
  }
  return text;
}

std::string last_numbers(const Run& run) {
  if (run.loss.empty()) {
    return "no step yet";
  }
  const auto last = [](const report::Series& series) { return series.empty() ? 0 : series.points().back().mean(); };
  std::string text =
      fmt::format("epoch {}/{}  loss {:.4f}  top-1 {:.2f} %  lr {:.3g}  {:.1f} images/s", run.epoch_shown(), run.epochs,
                  last(run.loss), 100 * last(run.top1), last(run.learning_rate), last(run.images_per_second));
  return text + (run.best_quality >= 0 ? fmt::format("  best {:.2f} %", 100 * run.best_quality) : "");
}

/// Returns the line about GPUs; empty if no record has it.
std::string gpus_line(const Run& run) {
  constexpr double kMebibyte = 1 << 20;
  const auto last = [](const report::Series& series) {
    return series.empty() ? std::nan("") : series.points().back().mean();
  };
  const double per_joule = last(run.images_per_joule);
  const std::string text = metrics::GpuSummary{.load = last(run.gpu_load),
                                               .memory = kMebibyte * last(run.gpu_memory),
                                               .memory_total = kMebibyte * last(run.gpu_memory_total),
                                               .watts = last(run.gpu_watts)}
                               .text();
  return text + (std::isnan(per_joule) ? "" : fmt::format("  {:.3g} images/J", per_joule));
}

std::string step_line(const Run& run) {
  std::string text = "a step:";
  double all = 0;
  for (const report::Series& part : run.parts) {
    all += part.empty() ? 0 : part.points().back().mean();
  }
  if (all <= 0) {
    return text + " not recorded";
  }
  for (std::size_t i = 0; i < run.parts.size(); ++i) {
    text += fmt::format(" {} {:.0f} %", report::kParts[i], 100 * run.parts[i].points().back().mean() / all);
  }
  return text + fmt::format("  of {:.3g} s", all);
}

std::string save_line(const Run& run) {
  if (run.durable.empty()) {
    return "checkpoints: none yet";
  }
  return fmt::format("checkpoints: {} written, the last of step {} took {:.3g} s{}", run.checkpoints,
                     run.durable.points().back().last_step, run.durable.points().back().mean(),
                     run.failed_checkpoints > 0 ? fmt::format(", {} FAILED", run.failed_checkpoints) : "");
}

/// Adds the slowest ranks, as many as fit.
void write_ranks(const Run& run, const FrameOptions& look, FrameWriter& writer) {
  const std::vector<report::RankSums>& ranks = run.ranks.ranks();
  if (ranks.size() < 2 || writer.room() < 3) {
    return;
  }
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t rank) { return ranks[rank].mean_own(); });
  const double most = std::max(ranks[order.front()].mean_own(), 1e-9);
  writer.line("ranks by own work of a step (data and forward), the slowest first", kBold);
  const std::size_t cells = look.width > 60 ? look.width - 50 : 10;
  for (std::size_t i = 0; i < order.size() && writer.room() > 0; ++i) {
    const report::RankSums& rank = ranks[order[i]];
    const auto filled =
        static_cast<std::size_t>(std::clamp(rank.mean_own() / most, 0.0, 1.0) * static_cast<double>(cells));
    writer.line(fmt::format("{:>6}  {:<16.16}  {:>9.4g} s  {}", order[i], run.host_of(order[i]), rank.mean_own(),
                            std::string(filled, '=')));
  }
}

}  // namespace

double seconds_remaining(const report::Run& run) {
  const std::int64_t left = run.all_steps() - run.step;
  if (run.all_steps() == 0 || run.starts.empty()) {
    return -1;
  }
  const report::Start& start = run.starts.back();
  const std::int64_t done = start.to_step - start.from_step;
  const double took = start.last - (start.first_step > 0 ? start.first_step : start.last);
  return done > 0 && took > 0 ? std::max(took / static_cast<double>(done) * static_cast<double>(left), 0.0) : -1;
}

std::string sparkline(const report::Series& series, std::size_t width, bool utf8) {
  const std::vector<report::Point> points = report::thinned(series.points(), std::max<std::size_t>(width, 1));
  if (points.empty()) {
    return "";
  }
  const auto [least, most] = std::ranges::minmax(points, {}, &report::Point::mean);
  const double range = most.mean() - least.mean();
  std::string text;
  for (const report::Point& point : points) {
    const double share = range > 0 ? (point.mean() - least.mean()) / range : 0;
    const auto level = std::min(static_cast<std::size_t>(share * kBlocks.size()), kBlocks.size() - 1);
    text += utf8 ? kBlocks[level] : kLetters[level];
  }
  return text;
}

std::vector<std::string> frame(const report::Run& run, const FrameOptions& look, double now) {
  FrameWriter writer(look);
  writer.line(run.name + ": " + report::state_of(run), kBold);
  writer.line(progress_bar(run, look.width));
  if (const std::string time = time_line(run, now); !time.empty()) {
    writer.line(time);
  }
  writer.line(last_numbers(run));
  if (const std::string gpus = gpus_line(run); !gpus.empty()) {
    writer.line(gpus);
  }
  const std::size_t columns = look.width > 20 ? look.width - 10 : 10;
  for (const auto& [name, series] : {std::pair{"loss", &run.loss}, std::pair{"images/s", &run.images_per_second}}) {
    if (!series->empty()) {
      writer.line(fmt::format("{:<9}{}", name, sparkline(*series, columns, look.utf8)));
    }
  }
  writer.line(step_line(run));
  writer.line(save_line(run));
  for (const std::string& text : report::advice(run)) {
    writer.line(text, kWarning);
  }
  for (const std::string& note : run.notes) {
    writer.line("note: " + note, kWarning);
  }
  write_ranks(run, look, writer);
  return writer.take();
}

}  // namespace rollcall::top
