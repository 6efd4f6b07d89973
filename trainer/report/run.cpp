#include "trainer/report/run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace rollcall::report {
namespace {

constexpr double kHour = 3600;

/// The folder's name says more than "metrics.jsonl" or "." does.
std::string name_of_run(const std::string& path) {
  std::error_code ignored;
  const auto folder = std::filesystem::absolute(path, ignored).lexically_normal().parent_path();
  const std::string name = folder.filename() == "checkpoints" ? folder.parent_path().filename() : folder.filename();
  return name.empty() ? path : name;
}

}  // namespace

double Run::wall_seconds() const {
  double sum = 0;
  for (const Start& start : starts) {
    sum += start.seconds();
  }
  return sum;
}

double Run::joules() const {
  double sum = 0;
  for (const Start& start : starts) {
    sum += start.joules;
  }
  return sum;
}

double Run::node_hours() const {
  double sum = 0;
  for (const Start& start : starts) {
    sum += start.seconds() * static_cast<double>(start.nodes) / kHour;
  }
  return sum;
}

double Run::core_hours() const {
  double sum = 0;
  for (const Start& start : starts) {
    sum += start.seconds() * static_cast<double>(start.ranks * start.cpus_of_rank) / kHour;
  }
  return sum;
}

double Run::goodput() const {
  const double wall = wall_seconds();
  return wall > 0 ? std::min(seconds.sum() / wall, 1.0) : 0;
}

std::int64_t Run::all_steps() const {
  const std::int64_t of_epochs = epochs * steps_of_epoch;
  return max_steps > 0 && (of_epochs == 0 || max_steps < of_epochs) ? max_steps : of_epochs;
}

std::string Run::host_of(std::size_t rank) const {
  std::size_t first = 0;
  for (std::size_t i = 0; i < hosts.size() && i < ranks_of_hosts.size(); ++i) {
    first += static_cast<std::size_t>(std::max<std::int64_t>(ranks_of_hosts[i], 0));
    if (rank < first) {
      return hosts[i];
    }
  }
  return hosts.size() == 1 ? hosts.front() : "";
}

std::string record_path(const std::string& run) {
  std::error_code ignored;
  return std::filesystem::is_directory(run, ignored) ? run + "/metrics.jsonl" : run;
}

Run unread_run(const std::string& run) {
  Run result;
  result.path = record_path(run);
  result.name = name_of_run(result.path);
  result.now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return result;
}

Result<Run> read_run(const std::string& run, const std::function<bool()>& go_on) {
  Run result = unread_run(run);
  RunReader reader(result);
  Result<RecordFile> file = RecordFile::open(result.path);
  if (!file) {
    return file.error();
  }
  const Result<void> read = file->read([&reader](const ReadRecord& record) { reader.take(record); }, go_on);
  if (!read) {
    return read.error();
  }
  add_notes(result, file->notes());
  return result;
}

}  // namespace rollcall::report
