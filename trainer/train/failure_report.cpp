#include "trainer/train/failure_report.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/first_on_host.h"
#include "runtime/base/sigterm.h"
#include "runtime/base/text.h"
#include "runtime/contract/deadlines.h"
#include "runtime/contract/env_vars.h"
#include "runtime/contract/exit_codes.h"
#include "runtime/job/marker.h"

namespace rollcall::train {

void warn_of_single_process(const job::JobFacts& facts, const Environment& environment) {
  const bool said = environment.get(env::kStep) == job::step_name(facts);
  for (const std::string& warning : facts.source == "single" && !said ? facts.warnings : std::vector<std::string>()) {
    fmt::print(stderr, "rollcall: warning: {}\n", printable(warning));
  }
}

FailureReport::FailureReport(std::uint32_t rank, std::uint32_t local_rank, std::string host)
    : rank_(rank), local_rank_(local_rank), host_(std::move(host)) {}

int FailureReport::report_on_rank_zero(const Error& error) const {
  if (rank_ == 0) {
    print(error);
  }
  if (membership_) {  // the ranks are connected
    membership_->wait_for_rank_0_to_leave();
    membership_->leave();
  } else if (rank_ == 0) {
    std::this_thread::sleep_for(deadline::kCommonErrorDelay);
  } else {
    wait_for_sigterm(deadline::kOtherTaskReports);
  }
  return to_int(error.exit_code());
}

int FailureReport::print_once_per_node(const Error& error, const std::string& occasion) const {
  if (is_first_on_host(occasion + "-" + host_)) {
    print(error);
    std::signal(SIGTERM, SIG_IGN);  // if another task has ended, this one's exit code still counts
    std::this_thread::sleep_for(deadline::kNodeErrorDelay);
  }
  return to_int(error.exit_code());
}

int FailureReport::report_options(const Error& error, const std::string& occasion) const {
  // Ranks of other nodes cannot find out whether rank 0 has the same error.
  const bool with_rank_0 = rank_ == local_rank_;
  return with_rank_0 || error.of_this_node ? print_once_per_node(error, occasion) : report_on_rank_zero(error);
}

int FailureReport::report_before_connecting(const Error& error, const std::string& occasion, bool rank_0_agrees) const {
  if (error.of_this_node) {
    return print_once_per_node(error, occasion);
  }
  return rank_0_agrees && rank_ == 1 ? report_agreed(error) : report_on_rank_zero(error);
}

int FailureReport::report_agreed(const Error& error) const {
  print(error);
  return to_int(error.exit_code());
}

FailureReport::Reported FailureReport::report_once(const Error& error) {
  const bool of_peer = process_group::is_peer_failure(error);
  if (error.kind == ErrorKind::DeviceLost) {
    end_process_within(deadline::kFailedDeviceShutdown, to_int(error.exit_code()));
  }
  const auto cause = membership_ ? membership_->claim(error) : std::nullopt;
  Reported reported{.cause = cause && of_peer ? cause->error : error};
  reported.exit_code = to_int(reported.cause.exit_code());
  // Without a store no rank can be asked: its holder, rank 0, was lost, perhaps with its whole node. Then rank 1 and
  // one rank of each other node report. Other failures are reported by one rank of each node.
  const bool tells = cause ? cause->mine : local_rank_ == 0 || (of_peer && rank_ == 1);
  if (tells && !std::exchange(printed_, true)) {
    print(reported.cause);
  }
  if (membership_) {
    membership_->leave();
  }
  if (of_peer) {
    end_process_within(deadline::kGroupShutdown, reported.exit_code);
  }
  return reported;
}

int FailureReport::begin_recovery(const Error& error) {
  end_process_within(deadline::kFinishSave, to_int(error.exit_code()));
  return to_int(error.exit_code());
}

void FailureReport::limit_group_release(int code) { end_process_within(deadline::kGroupShutdown, code); }

void FailureReport::end_recovery() {
  *ended_ = true;
  membership_.reset();
  store_.reset();  // so that no rank of the next world finds rank 0's old store
}

void FailureReport::shutdown_grace() {
  *ended_ = true;
  if (membership_) {
    membership_->wait_for_others_to_leave();
  }
}

void FailureReport::end_process_within(std::chrono::seconds patience, int code) {
  *ended_ = true;
  ended_ = std::make_shared<std::atomic<bool>>(false);
  std::thread([ended = ended_, patience, code] {
    std::this_thread::sleep_for(patience);
    if (!*ended) {
      std::fflush(nullptr);
      std::_Exit(code);
    }
  }).detach();
}

void FailureReport::print(const Error& error) const {
  if (error.kind == ErrorKind::Usage && !error.of_this_node) {  // all ranks have the same options
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return;
  }
  std::fprintf(stderr, "%s (rank %u on %s)\n", error.message().c_str(), rank_, host_.c_str());
}

}  // namespace rollcall::train
