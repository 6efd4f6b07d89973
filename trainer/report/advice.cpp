#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "runtime/base/text.h"
#include "trainer/report/html.h"
#include "trainer/report/summary.h"

namespace rollcall::report {
namespace {

/// An advice and the seconds that it may save.
struct Saving {
  double seconds = 0;
  std::string text;
};

/// Returns the value of a setting, or an empty text where it is not recorded, so that no advice names the current
/// value.
std::string setting(const Run& run, const char* name) {
  const auto found = run.settings.find(name);
  return found == run.settings.end() ? "" : found->second.value;
}

bool is_off(const Run& run, const char* name) {
  const std::string value = setting(run, name);
  return value.empty() || value == "0" || value == "false";
}

std::string faster_data(const Run& run) {
  constexpr double kBusy = 0.8;
  if (run.loader_utilisation < kBusy && run.loader_utilisation > 0) {
    return "faster storage or a larger --prefetch: the workers themselves waited";
  }
  const bool packed = run.data.ends_with(".h5") || run.data == "fake";
  return std::string("more workers (--train-num-workers) or CPUs a task") +
         (packed ? "" : ", or rollcall-pack --repack");
}

std::string less_lost_work(const Run& run) {
  return std::string("save more often (--checkpoint-steps)") +
         (is_off(run, "save-before-limit") ? ", or --save-before-limit" : "");
}

std::string cheaper_saves(const Run& run) {
  return (setting(run, "checkpoint-mode") == "async" ? "" : "--checkpoint-mode=async, or ") +
         std::string("fewer of them (a larger --checkpoint-steps or --checkpoint-epochs)");
}

/// Returns whether there is enough evidence for excluding the node: other nodes must show for some time what is normal.
bool is_worth_excluding(const Run& run, const Straggler& slow) {
  constexpr std::size_t kNodes = 3;
  constexpr double kTimes = 1.3;
  constexpr double kSeconds = 600;
  return run.hosts.size() >= kNodes && slow.times() >= kTimes && run.seconds.sum() >= kSeconds && !slow.by_data;
}

std::string straggler_advice(const Run& run, const Straggler& slow) {
  const std::string host = run.host_of(slow.rank);
  std::string text =
      fmt::format("all ranks wait for rank {}{}: look at {}", slow.rank, host.empty() ? "" : " on " + host,
                  slow.by_data ? "how it reads its data" : "what else its CPUs do");
  return text +
         (!host.empty() && is_worth_excluding(run, slow) ? ", or leave its node out (--exclude=" + host + ")" : "");
}

}  // namespace

std::vector<std::string> advice(const Run& run) {
  constexpr double kWorthTelling = 0.05;
  const double wall = run.wall_seconds();
  const double steps = std::accumulate(run.part_seconds.begin(), run.part_seconds.end(), 0.0);
  if (wall <= 0 || steps <= 0) {
    return {};
  }
  const auto share = [wall](double seconds) { return percent(seconds / wall); };
  const double startup = time_budget(run).front().second;
  const double waited = run.part_seconds.front();
  std::vector<Saving> savings{
      {waited,
       fmt::format("input-bound: {} of the time waited for data; {}", percent(waited / steps), faster_data(run))},
      {run.lost_seconds, fmt::format("{} of the time went into doing {} again: {}", share(run.lost_seconds),
                                     counted(run.lost_steps, "step"), less_lost_work(run))},
      {run.stall_seconds,
       fmt::format("{} of the time training waited for checkpoints: {}", share(run.stall_seconds), cheaper_saves(run))},
      {run.validation_seconds,
       fmt::format("{} of the time went into validations: a larger --valid-epochs", share(run.validation_seconds))},
      {startup, fmt::format("{} of the time went into {}: longer jobs, or a look at rollcall-train "
                            "--trace-startup",
                            share(startup), counted(run.starts.size(), "start"))}};
  if (const auto slow = run.ranks.straggler()) {
    const double a_step = slow->seconds - slow->median;
    savings.push_back({a_step * static_cast<double>(run.step - run.starts.front().from_step + run.lost_steps),
                       straggler_advice(run, *slow)});
  }
  std::ranges::stable_sort(savings, std::ranges::greater(), &Saving::seconds);
  std::vector<std::string> texts;
  for (Saving& saving : savings) {
    if (saving.seconds >= kWorthTelling * wall) {
      texts.push_back(std::move(saving.text));
    }
  }
  return texts;
}

}  // namespace rollcall::report
