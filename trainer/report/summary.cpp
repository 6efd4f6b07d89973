#include "trainer/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/base/text.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/report/curves.h"
#include "trainer/report/html.h"

namespace rollcall::report {
namespace {

using metrics::human_bytes;
using metrics::human_duration;

constexpr const char* kNotRecorded = "not recorded";

std::string place_text(const Run& run) {
  if (run.starts.empty() || run.starts.back().began == 0) {
    return kNotRecorded;
  }
  const Start& last = run.starts.back();
  std::string hosts;
  constexpr std::size_t kNamed = 4;
  for (std::size_t i = 0; i < std::min(run.hosts.size(), kNamed); ++i) {
    hosts += (i > 0 ? ", " : "") + run.hosts[i];
  }
  hosts += run.hosts.size() > kNamed ? ", ..." : "";
  std::string text = fmt::format("{} on {} ({}), {} a rank, backend {}", counted(last.ranks, "rank"),
                                 counted(last.nodes, "node"), hosts, counted(last.cpus_of_rank, "CPU"), run.backend);
  text += last.job.empty() ? "" : ", job " + last.job;
  return text + (run.starts.size() > 1 ? fmt::format(", {} starts", run.starts.size()) : "");
}

std::string progress_of(const Run& run) {
  const std::int64_t all = run.all_steps();
  std::string text = all > 0 ? fmt::format("step {} of {}", run.step, all) : fmt::format("step {}", run.step);
  text += run.left_out_steps > 0 ? ", " + counted(run.left_out_steps, "step") + " skipped (gradients not finite)" : "";
  const double bad = run.bad_samples.sum();
  text += bad > 0 ? ", " + counted(std::llround(bad), "image") + " skipped (damaged or unreadable)" : "";
  return text + (run.lost_steps > 0 ? ", " + counted(run.lost_steps, "step") + " repeated after a restart" : "");
}

std::string quality_text(const Run& run) {
  if (run.loss.empty()) {
    return "none yet";
  }
  const Point& last = run.loss.points().back();
  std::string text = fmt::format("loss {:.4f}, top-1 {:.2f} % (training, means up to step {})", last.mean(),
                                 100 * (run.top1.empty() ? 0 : run.top1.points().back().mean()), last.last_step);
  if (run.best_quality >= 0) {
    text += fmt::format("; best validation {} {:.2f} % after step {}", run.quality_name(), 100 * run.best_quality,
                        run.best_step);
  }
  return text;
}

/// Returns the use of the GPUs over the run; empty where it is not recorded.
std::string gpus_text(const Run& run) {
  std::string text;
  text += run.gpu_load.empty() ? "" : fmt::format(", GPUs busy {}", percent(run.gpu_load.mean()));
  text += run.gpu_watts.empty() ? "" : fmt::format(", {} W", short_number(run.gpu_watts.mean()));
  text += run.images_per_joule.empty() ? "" : fmt::format(", {} images/J", short_number(run.images_per_joule.mean()));
  return text;
}

std::string speed_text(const Run& run) {
  const double seconds = run.seconds.sum();
  if (seconds <= 0) {
    return run.images_per_second.empty() ? kNotRecorded : fmt::format("{:.0f} images/s", run.images_per_second.mean());
  }
  double a_step = 0;
  for (const Series& part : run.parts) {
    a_step += part.mean();
  }
  return fmt::format("{:.1f} images/s, {:.3g} s a step{}", run.samples.sum() / seconds, a_step, gpus_text(run));
}

std::string parts_text(const Run& run) {
  const double all = std::accumulate(run.part_seconds.begin(), run.part_seconds.end(), 0.0);
  if (all <= 0) {
    return kNotRecorded;
  }
  std::string text;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", kParts[i], percent(run.part_seconds[i] / all));
  }
  return text;
}

std::string straggler_text(const Run& run) {
  if (run.ranks.ranks().empty()) {
    return kNotRecorded;
  }
  if (!run.ranks.has_equal_shares()) {
    return "not compared: ranks have unequal shares of the work (--elastic-exact)";
  }
  const auto slow = run.ranks.slowest();
  if (!slow) {
    return run.ranks.ranks().size() == 1 ? "one rank" : "no straggler: no rank is 10 % slower than the median";
  }
  if (!run.ranks.straggler()) {
    return fmt::format("no straggler: no rank is slow repeatedly (the slowest, rank {}, took {:.1f} times the median)",
                       slow->rank, slow->times());
  }
  const std::string host = run.host_of(slow->rank);
  return fmt::format("straggler: rank {}{} took {:.1f} times the median ({:.3g} s a step of its own{})", slow->rank,
                     host.empty() ? "" : " on " + host, slow->times(), slow->seconds,
                     slow->by_data ? ", waiting for data" : "");
}

std::string memory_text(const Run& run) {
  const auto bytes = [](double number) { return human_bytes(static_cast<std::uint64_t>(number)); };
  std::string text = run.peak_memory > 0 ? fmt::format("; at most {} of memory a rank", bytes(run.peak_memory)) : "";
  text += run.device_peak > 0 ? fmt::format("; {} of a device's", bytes(run.device_peak)) : "";
  return text;
}

std::string saves_text(const Run& run) {
  std::string text = fmt::format("{} written", run.checkpoints);
  text += run.failed_checkpoints > 0 ? fmt::format(", {} FAILED", run.failed_checkpoints) : "";
  text += run.left_out_checkpoints > 0 ? fmt::format(", {} left out", run.left_out_checkpoints) : "";
  if (!run.durable.empty()) {
    text += fmt::format("; {:.3g} s each, the longest {:.3g} s; training waited {:.3g} s in total", run.durable.mean(),
                        run.durable.most(), run.stall_seconds);
  }
  return text;
}

/// Returns how often ranks were lost or joined, and how long that took.
std::string changes_text(const Run& run) {
  std::string text = "ranks were lost or joined " + counted(run.world_changes, "time");
  if (!run.change_seconds.empty()) {
    text += fmt::format("; {:.3g} s each until the next step, at most {:.3g} s", run.change_seconds.mean(),
                        run.change_seconds.most());
  }
  return text;
}

std::string replicas_text(const Run& run) {
  return fmt::format("{} in the memory of peers, {} per rank, for which training waited {:.3g} s in all{}",
                     run.replicas, human_bytes(static_cast<std::uint64_t>(run.replica_bytes)),
                     run.replica_stall_seconds,
                     run.failed_replicas > 0 ? fmt::format("; {} FAILED", run.failed_replicas) : "");
}

std::string cost_text(const Run& run) {
  if (run.wall_seconds() <= 0) {
    return kNotRecorded;
  }
  constexpr double kKilowattHour = 3.6e6;
  const std::string energy =
      run.joules() > 0 ? fmt::format(", {} kWh ({})", short_number(run.joules() / kKilowattHour), run.energy_of) : "";
  return fmt::format("{}, {} node-hours, {} core-hours{}; {} of it in steps that count (goodput)",
                     human_duration(run.wall_seconds()), short_number(run.node_hours()), short_number(run.core_hours()),
                     energy, percent(run.goodput()));
}

double sum_of(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

/// Returns the shares of communication in the last trace.
std::string trace_text(const Run& run) {
  if (run.traces.empty() || sum_of(run.traces.back().seconds) <= 0) {
    return "";
  }
  const TracedSteps& traced = run.traces.back();
  const double all = sum_of(traced.seconds);
  if (!std::isfinite(sum_of(traced.communication))) {
    return "";  // with a GPU the host does not know them
  }
  return fmt::format("; traced steps {} to {}: communication {}, {} not hidden by computation", traced.first_step,
                     traced.last_step, percent(sum_of(traced.communication) / all),
                     percent(sum_of(traced.exposed) / all));
}

}  // namespace

std::string state_of(const Run& run) {
  if (run.ended()) {
    const std::string& ending = run.starts.back().ending;
    return ending.substr(
        0, ending.find(':') == std::string::npos || ending.starts_with("failed") ? ending.size() : ending.find(':'));
  }
  if (run.starts.empty() || run.starts.back().last == 0) {
    return "nothing recorded yet";
  }
  const std::string age = human_duration(run.now - run.starts.back().last);
  if (run.is_alive()) {
    return fmt::format("running: its last record is {} old", age);
  }
  return run.renewed > 0
             ? fmt::format("killed, lost or hanging: its lease was not renewed for {}; its last record is {} old",
                           human_duration(run.now - run.renewed), age)
             : fmt::format("no end is recorded: it was killed or could not write; its last record is {} old", age);
}

std::vector<std::pair<std::string, double>> time_budget(const Run& run) {
  double startup = 0;
  for (const Start& start : run.starts) {
    startup += start.startup_seconds();
  }
  std::vector<std::pair<std::string, double>> budget{{"start", startup}};
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    budget.emplace_back(std::string("steps: ") + kParts[i], run.part_seconds[i]);
  }
  budget.emplace_back("validation", run.validation_seconds);
  budget.emplace_back("waiting for checkpoints", run.stall_seconds);
  if (run.replica_stall_seconds > 0) {
    budget.emplace_back("waiting for replicas", run.replica_stall_seconds);
  }
  double known = 0;
  for (const auto& [name, seconds] : budget) {
    known += seconds;
  }
  budget.emplace_back("not in any record", std::max(run.wall_seconds() - known, 0.0));
  return budget;
}

std::vector<std::pair<std::string, std::string>> summary(const Run& run) {
  const std::vector<std::string> cheaper = advice(run);
  const std::string model = run.model.empty() ? kNotRecorded
                                              : fmt::format("{} on {}: {} training images, {} a step", run.model,
                                                            run.data, run.training_images, run.images_of_step);
  std::vector<std::pair<std::string, std::string>> rows{{"run", run.name + ": " + state_of(run)},
                                                        {"result", quality_text(run)},
                                                        {"progress", progress_of(run)},
                                                        {"training", model},
                                                        {"where", place_text(run)},
                                                        {"speed", speed_text(run)},
                                                        {"a step", parts_text(run) + trace_text(run)},
                                                        {"ranks", straggler_text(run) + memory_text(run)},
                                                        {"checkpoints", saves_text(run)}};
  if (run.replicas + run.failed_replicas > 0) {
    rows.emplace_back("replicas", replicas_text(run));
  }
  if (run.world_changes > 0) {
    rows.emplace_back("changes", changes_text(run));
  }
  rows.emplace_back("cost", cost_text(run) + (cheaper.empty() ? "" : "; cheaper: " + cheaper.front()));
  return rows;
}

std::string summary_text(const Run& run) {
  std::string text;
  for (const auto& [name, line] : summary(run)) {
    text += line == kNotRecorded ? "" : fmt::format("{:<12}{}\n", name, printable(line));
  }
  for (const std::string& note : run.notes) {
    text += fmt::format("{:<12}{}\n", "note", printable(note));
  }
  return text;
}

std::string summary_json(const Run& run) {
  using Json = nlohmann::ordered_json;
  const auto last = [](const Series& series) { return series.empty() ? Json() : Json(series.points().back().mean()); };
  const auto mean = [](const Series& series) { return series.empty() ? Json() : Json(series.mean()); };
  Json parts = Json::object();
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    parts[kParts[i]] = run.part_seconds[i];
  }
  Json budget = Json::object();
  for (const auto& [name, seconds] : time_budget(run)) {
    budget[name] = seconds;
  }
  const auto slow = run.ranks.straggler();
  const Json straggler =
      slow ? Json{{"rank", slow->rank}, {"host", run.host_of(slow->rank)}, {"times", slow->times()}} : Json();
  Json traces = Json::array();
  for (const TracedSteps& traced : run.traces) {
    traces.push_back({{"file", traced.file},
                      {"first_step", traced.first_step},
                      {"last_step", traced.last_step},
                      {"seconds", traced.seconds},
                      {"compute_seconds", traced.compute},
                      {"communication_seconds", traced.communication},
                      {"exposed_communication_seconds", traced.exposed}});
  }
  const bool several = !run.valid_precision.empty();
  const Json all{{"run", run.name},
                 {"file", run.path},
                 {"state", state_of(run)},
                 {"ended", run.ended()},
                 {"running", run.is_alive()},
                 {"step", run.step},
                 {"steps", run.all_steps()},
                 {"epochs", run.epochs},
                 {"starts", run.starts.size()},
                 {"loss", last(run.loss)},
                 {"top1", last(run.top1)},
                 {"best_top1", run.best_quality >= 0 && !several ? Json(run.best_quality) : Json()},
                 {"best_mean_average_precision", several ? Json(run.best_quality) : Json()},
                 {"best_step", run.best_quality >= 0 ? Json(run.best_step) : Json()},
                 {"learning_rate", last(run.learning_rate)},
                 {"bad_samples", static_cast<std::int64_t>(run.bad_samples.sum())},
                 {"images_per_second", run.seconds.sum() > 0 ? Json(run.samples.sum() / run.seconds.sum()) : Json()},
                 {"gpu_load", mean(run.gpu_load)},
                 {"gpu_watts", mean(run.gpu_watts)},
                 {"images_per_joule", mean(run.images_per_joule)},
                 {"part_seconds", parts},
                 {"time_budget_seconds", budget},
                 {"straggler", straggler},
                 {"peak_memory_bytes", run.peak_memory},
                 {"device_peak_bytes", run.device_peak > 0 ? Json(run.device_peak) : Json()},
                 {"checkpoints", run.checkpoints},
                 {"failed_checkpoints", run.failed_checkpoints},
                 {"replicas", run.replicas},
                 {"failed_replicas", run.failed_replicas},
                 {"world_changes", run.world_changes},
                 {"lost_steps", run.lost_steps},
                 {"wall_seconds", run.wall_seconds()},
                 {"node_hours", run.node_hours()},
                 {"core_hours", run.core_hours()},
                 {"goodput", run.goodput()},
                 {"energy_joules", run.joules()},
                 {"energy_of", run.energy_of},
                 {"traces", traces},
                 {"advice", advice(run)},
                 {"command_line", run.command_line},
                 {"warnings", run.warnings},
                 {"notes", run.notes}};
  return all.dump(-1, ' ', true, Json::error_handler_t::replace);  // ASCII: a terminal obeys bytes from 0x80 on, too
}

std::string curves_csv(const std::vector<Run>& runs) {
  std::string text = "run,curve,first_step,last_step,mean,least,most\n";
  for (const Run& run : runs) {
    std::string name = run.name;
    std::ranges::replace(name, '"', '\'');
    for (const Curve& curve : curves_of(run)) {
      for (const Point& point : curve.series->points()) {
        text += fmt::format("\"{}\",{},{},{},{:.9g},{:.9g},{:.9g}\n", name, curve.name, point.first_step,
                            point.last_step, point.mean(), point.least, point.most);
      }
    }
  }
  return text;
}

}  // namespace rollcall::report
