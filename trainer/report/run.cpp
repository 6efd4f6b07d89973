#include "trainer/report/run.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"

namespace rollcall::report {
namespace {

constexpr double kHour = 3600;
constexpr std::size_t kMostOfEvaluation = std::size_t{64} << 20;  // bytes; of ten thousand classes
constexpr double kSilence = 90;  // seconds; a lease is renewed every 5 s, and NFS may show that a minute later

/// Returns the name of the run's folder, also for "metrics.jsonl" or ".".
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

bool Run::is_alive() const { return !ended() && renewed > 0 && now - renewed < kSilence; }

void Run::note_once(const std::string& note) {
  constexpr std::size_t kMost = 20;
  if (notes.size() < kMost && std::ranges::find(notes, note) == notes.end()) {
    notes.push_back(note);
  }
}

std::int64_t Run::epoch_shown() const { return epochs > 0 ? std::min(epoch + 1, epochs) : epoch + 1; }

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
  look_at_present(result);
  return result;
}

void look_at_present(Run& run) {
  run.now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  struct stat lease {};
  const std::string path = std::filesystem::path(run.path).replace_filename("lease.json");
  run.renewed = ::stat(path.c_str(), &lease) == 0 ? static_cast<double>(lease.st_mtime) : 0;
}

Result<Run> read_run(const std::string& run, const std::function<bool()>& go_on) {
  Run result = unread_run(run);
  RunReader reader(result);
  ASSIGN_OR_RETURN(RecordFile file, RecordFile::open(result.path));
  RETURN_IF_ERROR(file.read([&reader](const ReadRecord& record) { reader.take(record); }, go_on));
  look_at_present(result);
  add_notes(result, file.notes());
  const std::string beside = std::filesystem::path(result.path).replace_filename("evaluation/evaluation.json");
  result.evaluation = metrics::parse_evaluation(content_of(beside, kMostOfEvaluation));
  return result;
}

void add_notes(Run& run, const FileNotes& file) {
  run.file = file;
  if (file.records == 0) {
    run.note_once(file.unfinished_line || file.unreadable_lines > 0
                      ? "no line of the file is a record: it may belong to another program"
                      : "the file is empty: the run has not begun its first step");
  }
  if (file.unreadable_lines > 0) {
    run.note_once(fmt::format("{} skipped; the first is line {}",
                              counted(file.unreadable_lines, "unreadable line was", "unreadable lines were"),
                              file.first_unreadable));
  }
  if (file.unfinished_line && file.records > 0) {
    run.note_once("the last line has no end: the run was killed while writing it, or is writing it now");
  }
  if (file.out_of_time) {
    run.note_once("the record was too long to read all of it here; rollcall-report reads all of it");
  }
  if (run.clock_jumps > 0) {
    run.note_once(
        fmt::format("the clock went backwards {}: times of this run may be wrong", counted(run.clock_jumps, "time")));
  }
  if (run.seconds.empty() && !run.loss.empty()) {
    run.note_once("the records of steps have no times: an older rollcall wrote them");
  } else if (run.loss.empty() && run.step > 0) {
    run.note_once("no step is recorded, because there were fewer steps than --log-steps");
  }
}

}  // namespace rollcall::report
