#include "trainer/tools/pack/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/text.h"
#include "trainer/metrics/human_numbers.h"

namespace rollcall::pack {
namespace {

constexpr std::size_t kMostNames = 20;

double rate(const PackReport& report) {
  const auto fresh = static_cast<double>(report.samples - report.from_earlier_run);
  return report.seconds > 0 ? fresh / report.seconds : 0;
}

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 100.0;
}

std::string bad_files_text(const PackReport& report) {
  std::string text = "  left out      " + counted(report.bad.size(), "bad file") + ":\n";
  for (std::size_t i = 0; i < std::min(report.bad.size(), kMostNames); ++i) {
    text += fmt::format("                {}: {}\n", printable(report.bad[i].name), printable(report.bad[i].reason));
  }
  if (report.bad.size() > kMostNames) {
    text += fmt::format("                and {} more (--json lists all)\n", report.bad.size() - kMostNames);
  }
  return text;
}

}  // namespace

std::string report_text(const PackReport& report) {
  if (report.was_there_already) {
    return fmt::format("{}: was already packed by an earlier run, format {}\n", printable(report.out),
                       printable(report.format_version));
  }
  std::string text = fmt::format("{}: packed and verified\n", printable(report.out));
  text += fmt::format("  images        {} in {}\n", report.samples, counted(report.classes, "class", "classes"));
  text += fmt::format("  bytes         {} in, {} out ({:.1f} %)\n", metrics::human_bytes(report.bytes_in),
                      metrics::human_bytes(report.bytes_out), percent(report.bytes_out, report.bytes_in));
  text += fmt::format("  inodes        {} before, 1 now: {} fewer in a quota that counts files\n", report.inodes_in,
                      report.inodes_in - std::min<std::uint64_t>(report.inodes_in, 1));
  text += fmt::format("  time          {}, {:.0f} img/s\n", metrics::human_duration(report.seconds), rate(report));
  if (report.from_earlier_run > 0) {
    text += fmt::format("  continued     {} of an earlier run, kept and checked again\n",
                        counted(report.from_earlier_run, "image"));
  }
  if (report.resized > 0) {
    text += fmt::format("  resized       {}\n", counted(report.resized, "image"));
  }
  if (report.repacked > 0 || !report.not_repacked.empty()) {
    text += fmt::format("  repacked      {}, each compared pixel by pixel with its original\n",
                        counted(report.repacked, "image"));
  }
  for (const auto& [reason, count] : report.not_repacked) {
    text += fmt::format("  unchanged     {}: {}\n", counted(count, "image"), reason);
  }
  if (!report.bad.empty()) {
    text += bad_files_text(report);
  }
  for (const std::string& name : report.empty_classes) {
    text += fmt::format("  warning       class {} has no image left\n", printable(name));
  }
  return text;
}

std::string report_json(const std::vector<PackReport>& reports) {
  nlohmann::json files = nlohmann::json::array();
  for (const PackReport& report : reports) {
    nlohmann::json bad = nlohmann::json::array();
    for (const PackReport::BadFile& file : report.bad) {
      bad.push_back({{"name", file.name}, {"reason", file.reason}});
    }
    files.push_back({{"out", report.out},
                     {"format_version", report.format_version},
                     {"was_there_already", report.was_there_already},
                     {"images", report.samples},
                     {"classes", report.classes},
                     {"repacked", report.repacked},
                     {"resized", report.resized},
                     {"from_earlier_run", report.from_earlier_run},
                     {"bytes_in", report.bytes_in},
                     {"bytes_out", report.bytes_out},
                     {"inodes_in", report.inodes_in},
                     {"inodes_out", 1},
                     {"seconds", report.seconds},
                     {"images_per_second", rate(report)},
                     {"bad", bad},
                     {"not_repacked", report.not_repacked},
                     {"empty_classes", report.empty_classes}});
  }
  const nlohmann::json all{{"files", files}};
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rollcall::pack
