#include "trainer/report/page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/owned_file.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/report/chart.h"
#include "trainer/report/comparison.h"
#include "trainer/report/curves.h"
#include "trainer/report/html.h"
#include "trainer/report/summary.h"

namespace rollcall::report {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kScalePoints = 128;
constexpr std::size_t kMostPoints = 9000;  // in all lines of a page, which keeps it below 1 MB

std::vector<Point> scaled(const std::vector<Point>& points, double scale) {
  std::vector<Point> result = points;
  for (Point& point : result) {
    point.sum *= scale;
    point.least *= scale;
    point.most *= scale;
  }
  return result;
}

Chart empty_chart(const ChartPlan& plan) {
  Chart chart;
  chart.id = plan.id;
  chart.title = plan.title;
  chart.unit = plan.unit;
  chart.stacked = plan.stacked;
  chart.dots = plan.dots;
  return chart;
}

std::size_t points_of_line(std::size_t lines) {
  return std::clamp<std::size_t>(kMostPoints / std::max<std::size_t>(lines, 1), 50, 1024);
}

std::string scale_for_script(const StepScale& scale) {
  return "<script type=\"application/json\" id=\"scale\">" + scale_json(scale) + "</script>";
}

std::string charts_of_one(const Run& run) {
  const std::vector<ChartPlan> plans = charts_of(run);
  std::size_t lines = 0;
  for (const ChartPlan& plan : plans) {
    lines += plan.curves.size();
  }
  std::string html;
  const StepScale scale{run.steps_of_epoch, thinned(run.clock.points(), kScalePoints)};
  for (const ChartPlan& plan : plans) {
    Chart chart = empty_chart(plan);
    chart.scale = scale;
    for (const Curve& curve : plan.curves) {
      chart.lines.push_back({curve.name, scaled(thinned(curve.series->points(), points_of_line(lines)), plan.scale)});
    }
    html += chart_html(chart);
  }
  return html + scale_for_script(scale);
}

/// Returns a scale with epochs where they have the same number of steps in all runs. Times differ between runs.
StepScale common_scale(const std::vector<Run>& runs) {
  const std::int64_t steps = runs.front().steps_of_epoch;
  const bool is_common = std::ranges::all_of(runs, [=](const Run& run) { return run.steps_of_epoch == steps; });
  return {is_common ? steps : 0, {}};
}

/// Returns a chart for each curve, with a line for each run.
std::string charts_of_several(const std::vector<Run>& runs) {
  std::vector<Chart> charts;
  std::size_t lines = 0;
  for (const Run& run : runs) {
    for (const ChartPlan& plan : charts_of(run)) {
      for (const Curve& curve : plan.curves) {
        Chart chart = empty_chart(plan);
        chart.stacked = false;
        chart.title += plan.curves.size() == 1 ? "" : ": " + curve.name;
        auto same = std::ranges::find(charts, chart.title, &Chart::title);
        if (same == charts.end()) {
          chart.id += std::to_string(charts.size());
          same = charts.insert(charts.end(), chart);
        }
        same->lines.push_back({run.name, scaled(curve.series->points(), plan.scale)});
        lines += 1;
      }
    }
  }
  std::string html;
  const StepScale scale = common_scale(runs);
  for (Chart& chart : charts) {
    chart.scale = scale;
    for (ChartLine& line : chart.lines) {
      line.points = thinned(line.points, points_of_line(lines));
    }
    html += chart_html(chart);
  }
  return html + scale_for_script(scale);
}

std::string budget_table(const std::vector<Run>& runs) {
  Rows rows{{"part"}};
  for (const Run& run : runs) {
    rows.front().push_back(runs.size() > 1 ? run.name + " (s)" : "seconds");
    rows.front().emplace_back("share");
    const double wall = run.wall_seconds();
    const auto budget = time_budget(run);
    rows.resize(std::max(rows.size(), budget.size() + 1));
    for (std::size_t i = 0; i < budget.size(); ++i) {
      std::vector<std::string>& row = rows[i + 1];
      if (row.empty()) {
        row.push_back(budget[i].first);
      }
      row.push_back(short_number(budget[i].second));
      row.push_back(wall > 0 ? fmt::format("{:.1f} %", 100 * budget[i].second / wall) : "-");
    }
  }
  return html_table("Where the time went, all starts together, by rank 0's clock", rows);
}

std::string traces_section(const Run& run) {
  std::string html;
  for (const TracedSteps& traced : run.traces) {
    Rows rows{{"rank", "seconds", "computation", "communication", "not hidden by computation"}};
    for (std::size_t rank = 0; rank < traced.seconds.size(); ++rank) {
      const auto share = [&](const std::vector<double>& part) {
        return traced.seconds[rank] > 0 && std::isfinite(part[rank])
                   ? fmt::format("{:.1f} %", 100 * part[rank] / traced.seconds[rank])
                   : "-";
      };
      rows.push_back({std::to_string(rank), short_number(traced.seconds[rank]), share(traced.compute),
                      share(traced.communication), share(traced.exposed)});
    }
    html += fmt::format(
                "<p>Steps {} to {}: <a href=\"{}\" download>{}</a> in the run's folder, for ui.perfetto.dev or "
                "chrome://tracing.</p>",
                traced.first_step, traced.last_step, escaped(traced.file), escaped(traced.file)) +
            html_table(fmt::format("Steps {} to {}", traced.first_step, traced.last_step), rows);
  }
  return html;
}

std::string starts_table(const Run& run) {
  Rows rows{{"start", "began", "took", "job", "nodes", "ranks", "from step", "to step", "ending"}};
  for (const Start& start : run.starts) {
    rows.push_back({std::to_string(rows.size()), metrics::clock_text(start.began),
                    metrics::human_duration(start.seconds()), start.job.empty() ? "-" : start.job,
                    std::to_string(start.nodes), std::to_string(start.ranks), std::to_string(start.from_step),
                    std::to_string(start.to_step), start.ending.empty() ? "no record of an end" : start.ending});
  }
  return html_table("Starts of this run", rows);
}

std::string values_table(const std::string& caption, const std::string& what,
                         const std::map<std::string, NamedValue>& values, bool changed_only) {
  Rows rows{{what, "value", "origin"}};
  for (const auto& [name, value] : values) {
    if (!changed_only || value.origin != "default") {
      rows.push_back({name, value.value, value.origin});
    }
  }
  return rows.size() > 1 ? html_table(caption, rows) : "<p>None.</p>";
}

std::string environment_section(const Run& run) {
  const std::string line =
      run.command_line.empty() ? "" : "<p>Command line</p><pre>" + escaped(run.command_line) + "</pre>";
  if (run.settings.empty() && run.environment.empty()) {
    return line + "<p>Not recorded.</p>";
  }
  return fmt::format("<p>rollcall {}, LibTorch {}</p>", escaped(run.version), escaped(run.libtorch)) + line +
         values_table("Settings that are not the default", "setting", run.settings, true) +
         "<details><summary>All settings</summary>" + values_table("All settings", "setting", run.settings, false) +
         "</details><details><summary>Variables of rank 0</summary>" +
         values_table("Variables that rollcall set or found", "variable", run.environment, false) + "</details>";
}

/// Returns a table of the settings and variables that differ between the runs.
std::string differences_table(const std::vector<Run>& runs) {
  Rows rows{{"setting"}};
  for (const Run& run : runs) {
    rows.front().push_back(run.name);
  }
  for (const auto& [name, values] : differing_settings(runs)) {
    rows.push_back({name});
    rows.back().insert(rows.back().end(), values.begin(), values.end());
  }
  return rows.size() > 1 ? html_table("Settings that differ", rows) : "<p>No recorded setting differs.</p>";
}

std::string summary_table(const std::vector<Run>& runs) {
  Rows rows{{"what"}};
  for (const Run& run : runs) {
    rows.front().push_back(run.name);
    const auto lines = summary(run);
    rows.resize(lines.size() + 1);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (rows[i + 1].empty()) {
        rows[i + 1].push_back(lines[i].first);
      }
      rows[i + 1].push_back(lines[i].second);
    }
  }
  return html_table("What matters, in ten lines", rows);
}

std::string list_of(const std::vector<std::string>& texts, const std::string& css) {
  std::string html = texts.empty() ? "" : fmt::format("<ul class=\"{}\">", css);
  for (const std::string& text : texts) {
    html += "<li>" + escaped(text) + "</li>";
  }
  return html + (texts.empty() ? "" : "</ul>");
}

std::string section(const std::string& id, const std::string& title, const std::string& content) {
  return content.empty() ? ""
                         : fmt::format(
                               "<section id=\"s-{0}\" aria-labelledby=\"h-{0}\"><h2 id=\"h-{0}\">{1}</h2>\n{2}"
                               "</section>\n",
                               id, title, content);
}

std::string notes_of(const std::vector<Run>& runs) {
  std::vector<std::string> notes;
  for (const Run& run : runs) {
    for (const std::string& note : run.notes) {
      notes.push_back(runs.size() > 1 ? run.name + ": " + note : note);
    }
  }
  return list_of(notes, "notes");
}

std::string warnings_of(const std::vector<Run>& runs) {
  std::vector<std::string> warnings;
  for (const Run& run : runs) {
    for (const std::string& warning : run.warnings) {
      warnings.push_back(runs.size() > 1 ? run.name + ": " + warning : warning);
    }
  }
  return list_of(warnings, "notes");
}

std::string advice_of(const std::vector<Run>& runs) {
  std::string html;
  for (const Run& run : runs) {
    const std::vector<std::string> texts = advice(run);
    html += runs.size() > 1 ? "<h3>" + escaped(run.name) + "</h3>" : "";
    html += texts.empty() ? "<p>Nothing stands out.</p>" : list_of(texts, "advice");
  }
  return html;
}

std::string body(const std::vector<Run>& runs) {
  const bool several = runs.size() > 1;
  std::string html = section("summary", "Summary", summary_table(runs)) +
                     section("notes", "Notes on the record", notes_of(runs)) +
                     section("warnings", "Warnings of the run", warnings_of(runs)) +
                     section("cheaper", "What would have made it cheaper", advice_of(runs)) +
                     (several ? section("differences", "Differences", differences_table(runs)) : "") +
                     section("curves", "Curves", several ? charts_of_several(runs) : charts_of_one(runs.front()));
  for (const Run& run : runs) {
    const std::string id = std::to_string(&run - runs.data());
    const std::string suffix = several ? ": " + escaped(run.name) : "";
    html += several ? "" : section("ranks" + id, "Ranks", heat_map_html(run));
    html += section("evaluation" + id, "Evaluation" + suffix, evaluation_html(run));
    html += several ? "" : section("traces" + id, "Traced steps", traces_section(run));
    html += section("starts" + id, "Starts" + suffix, starts_table(run));
    html += several ? "" : section("environment", "Settings and environment", environment_section(run));
  }
  return html + section("time", "Time", budget_table(runs));
}

Error not_written(const std::string& path, int error_number, ErrorKind kind) {
  return fail("report", path, "cannot be written: " + errno_text(error_number),
              what_to_try(error_number, "naming a file in another folder (--output=FILE)"), kind);
}

std::string made_report(const std::string& folder, double most_seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(most_seconds));
  const Result<Run> run = read_run(folder, [end] { return Clock::now() < end; });
  if (!run) {
    return "no report: " + run.error().text() + "\n";
  }
  const std::string path = folder + "/report.html";
  const Result<void> written = write_whole(path, page_html({*run}));
  return summary_text(*run) +
         (written ? fmt::format("{:<12}{}\n", "report", path) : "no report: " + written.error().text() + "\n");
}

}  // namespace

std::string page_html(const std::vector<Run>& runs) {
  std::string title = runs.front().name;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    title += (i + 1 == runs.size() ? " and " : ", ") + runs[i].name;
  }
  const std::string state =
      runs.size() == 1 ? state_of(runs.front()) : fmt::format("{} runs side by side", runs.size());
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\"><title>{0} - rollcall "
      "report</title>\n<style>{1}</style></head>\n"
      "<body><header><h1>{0}</h1><p class=\"state\">{2}</p><p class=\"made\">Report of {3} by rollcall-report, from "
      "{4}; times are of this zone"
      "</p></header>\n<main>\n{5}</main>\n<p id=\"told\" class=\"hidden\" "
      "aria-live=\"polite\"></p>\n<script>{6}</script>"
      "</body></html>\n",
      escaped(title), page_style(), escaped(state), metrics::clock_text(runs.front().now), escaped(runs.front().path),
      body(runs), page_script());
}

Result<void> write_whole(const std::string& path, const std::string& text) {
  const OpenedOutput beside = create_beside(path, O_WRONLY);
  const File file(beside.descriptor);
  if (!file) {
    return not_written(path, beside.error_number, ErrorKind::CannotCreate);
  }
  if (write_all(file.descriptor(), text).empty() && file.sync(Cached::Keep) &&
      std::rename(beside.path.c_str(), path.c_str()) == 0) {
    return {};
  }
  const int error_number = errno;
  ::unlink(beside.path.c_str());
  return not_written(path, error_number, ErrorKind::InputOutput);
}

std::string report_of_run(const std::string& folder, double most_seconds) noexcept {
  try {
    return made_report(folder, most_seconds);
  } catch (const std::exception& error) {
    try {
      return fmt::format("no report: {}; rollcall-report {} may say more\n", error.what(), folder);
    } catch (const std::exception&) {
      return {};
    }
  }
}

}  // namespace rollcall::report
