#include "trainer/train/stop_request.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cmath>
#include <csignal>
#include <utility>

#include "runtime/contract/env_vars.h"
#include "runtime/contract/exit_codes.h"
#include "runtime/job/job_facts.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

volatile std::sig_atomic_t arrived = 0;
volatile std::sig_atomic_t trains = 0;

void remember(int signal) {
  if (signal == SIGTERM && trains == 0) {
    _exit(to_int(ExitCode::Ended));
  }
  if (signal == SIGINT && (trains == 0 || arrived == SIGINT)) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  arrived = signal;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    sigaction(signal, &action, nullptr);
  }
}

void training_begins() { trains = 1; }
void training_pauses() {
  trains = 0;
  if (arrived == SIGTERM) {
    _exit(to_int(ExitCode::Ended));
  }
}

int stop_signal() { return arrived; }

TimeLimit::TimeLimit(double save_before, std::optional<double> end, Ask ask_again)
    : save_before_(save_before),
      notice_(end ? std::optional(save_before) : std::nullopt),
      end_(end),
      ask_again_(std::move(ask_again)) {}

bool TimeLimit::near(double now) {
  if (near_ || !end_ || now < *end_ - save_before_) {
    return near_;
  }
  if (const std::optional<double> moved = ask_again_ ? ask_again_(now) : std::nullopt) {
    end_ = moved;
  }
  near_ = now >= *end_ - save_before_;
  return near_;
}

std::optional<double> TimeLimit::seconds_left(double now) const {
  return end_ ? std::optional(*end_ - save_before_ - now) : std::nullopt;
}

std::string slow_save_warning(double seconds, std::optional<double> notice, bool save_before_limit) {
  if (!notice || seconds <= *notice / 2) {
    return "";
  }
  const double enough = std::ceil(4 * seconds / 60) * 60;
  const std::string who = save_before_limit ? "this run ends" : "the batch scripts of rollcall signal a job";
  const std::string action = save_before_limit ? fmt::format("--save-before-limit={:.0f}", enough)
                                               : fmt::format("--signal=USR1@{:.0f} in the batch script", enough);
  return fmt::format(
      "a checkpoint took {:.1f} s until it was written, but {} {} s before the time limit; the job may be killed "
      "before "
      "its last checkpoint is written; try {}",
      seconds, who, *notice, action);
}

TimeLimit time_limit_of_job(const config::CheckpointConfig& config, const Environment& environment, std::uint32_t rank,
                            std::vector<std::string>& warnings) {
  const double before = config.save_before_limit;
  if (rank != 0) {
    return {};
  }
  if (before == 0) {
    const bool in_job = environment.get_non_empty(env::kSlurmJobId).has_value();
    return TimeLimit(in_job ? std::optional(kNoticeOfTemplates) : std::nullopt);
  }
  const double now = wall_seconds_now();
  const auto ask = [&environment](double at) { return job::ask_job_end_time(environment, at); };
  TimeLimit limit(before, job::job_end_time(environment, now), ask);
  const std::optional<double> left = limit.seconds_left(now);
  const std::string setting = "--save-before-limit: " + config.save_before_limit_given + ": ";
  if (!left) {
    warnings.push_back(
        setting + "this job has no time limit, or Slurm does not report it, so no checkpoint is written before it");
  } else if (*left <= 0) {
    warnings.push_back(
        setting + "the job has less time left than that, so it ends after one step; try requesting more time (--time)");
  }
  return limit;
}

}  // namespace rollcall::train
