#include "trainer/train/observer/step_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/report/page.h"
#include "trainer/train/object_collectives.h"

namespace rollcall::train {
namespace {

constexpr std::uint32_t kMostRanks = 64;
constexpr std::size_t kMostSpans = 1'000'000;  // of all ranks: about 150 MB, more than a browser opens easily
constexpr std::size_t kMostSpansOfRank = 200'000;
constexpr int kRounds = 8;  // clock readings

std::string name_of_thread(std::int64_t thread) {
  const std::string name = first_line_of(fmt::format("/proc/self/task/{}/comm", thread));
  return name.empty() ? "thread that has ended" : name;
}

double number(const nlohmann::json& value) { return value.is_number() ? value.get<double>() : std::nan(""); }

}  // namespace

StepTrace::StepTrace(const config::RunConfig& config, const JobContext& context, Observer& observer)
    : steps_(config.trace_steps),
      folder_(config.folder),
      context_(context),
      observer_(observer),
      traced_ranks_(std::min(context.world_size, kMostRanks)) {
  if (steps_ && context.rank < traced_ranks_) {
    recorder_.emplace(std::min(kMostSpansOfRank, kMostSpans / traced_ranks_));
  }
}

Result<void> StepTrace::before_step(std::int64_t step) {
  if (!steps_ || step < steps_->first || step > steps_->last) {
    return {};
  }
  if (first_ == 0) {
    RETURN_IF_ERROR(compare_clocks());
    first_ = step;
    begun_ = true;
  }
  step_begun_ = nanoseconds_now();
  if (recorder_ && begun_) {
    recorder_->record(true);
  }
  return {};
}

void StepTrace::no_step() {
  if (recorder_) {
    recorder_->record(false);
  }
}

Result<void> StepTrace::after_step(std::int64_t step) {
  if (!begun_) {
    return {};
  }
  last_ = step;
  step_ended_ = nanoseconds_now();
  if (recorder_) {
    recorder_->add(fmt::format("step: {}", step), step_begun_, step_ended_);
  }
  return step == steps_->last ? write() : Result<void>();
}

Result<void> StepTrace::finish(Ending ending) {
  if (steps_ && last_ == 0) {
    observer_.warn(
        fmt::format("--trace-steps: {}-{}: this run executed none of these steps", steps_->first, steps_->last));
  }
  if (!begun_ || last_ == 0) {
    return {};
  }
  if (ending == Ending::Interrupted) {
    observer_.warn(fmt::format("--trace-steps: the run was interrupted after step {}, so there is no trace", last_));
    return {};
  }
  return write();
}

Result<void> StepTrace::compare_clocks() {
  std::vector<metrics::ClockReading> readings;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t sent = nanoseconds_now();
    RETURN_IF_ERROR(process_group::barrier(context_.process_group));  // rank 0 reads its clock after all others
    ASSIGN_OR_RETURN(const auto answered, broadcast_numbers(context_.process_group, {nanoseconds_now()}));
    readings.push_back({sent, answered.front(), nanoseconds_now()});
  }
  clock_ = context_.rank == 0 ? metrics::ClockOffset() : metrics::clock_offset(readings);
  return {};
}

StepTrace::Part StepTrace::make_part() {
  if (!recorder_) {
    return {};
  }
  try {
    const metrics::TracedRank traced{context_.rank, context_.host, clock_.offset, recorder_->take(step_ended_)};
    Part part{metrics::shares_of(traced.spans), metrics::trace_events(traced, name_of_thread)};
    if (context_.device.type() != at::kCPU) {  // the device computes and communicates later than the host's spans
      part.shares.compute = part.shares.communication = part.shares.exposed = std::nan("");
    }
    return part;
  } catch (const std::exception&) {
    return {};
  }
}

Result<void> StepTrace::write() {
  begun_ = false;
  const Part part = make_part();
  const bool full = recorder_ && recorder_->was_full();
  recorder_.reset();
  const auto& [steps, compute, communication, exposed] = part.shares;
  ASSIGN_OR_RETURN(const std::vector<nlohmann::json> heads,
                   all_gather_json(context_.process_group, {steps, compute, communication, exposed, clock_.error}));
  std::vector<std::string> events;
  for (std::uint32_t rank = 0; rank < traced_ranks_; ++rank) {
    ASSIGN_OR_RETURN(std::string of_rank, broadcast_text(rank, context_.process_group, part.events));
    events.push_back(context_.rank == 0 ? std::move(of_rank) : "");
  }
  if (full) {
    observer_.warn("--trace-steps: the steps have more spans than the trace can hold; the last steps lack some");
  }
  if (context_.rank == 0) {
    try {
      write_file(heads, events);
    } catch (const std::exception& error) {
      observer_.warn(fmt::format("--trace-steps: the trace could not be made: {}", error.what()));
    }
  }
  return {};
}

void StepTrace::write_file(const std::vector<nlohmann::json>& heads, const std::vector<std::string>& events) {
  std::vector<metrics::TraceShares> shares;
  double clock_error = 0;
  for (std::uint32_t rank = 0; rank < traced_ranks_; ++rank) {
    const nlohmann::json& head = heads.at(rank);
    shares.push_back({number(head.at(0)), number(head.at(1)), number(head.at(2)), number(head.at(3))});
    clock_error = std::max(clock_error, 1e-9 * number(head.at(4)));
  }
  if (const auto empty = std::ranges::count_if(events, &std::string::empty); empty > 0) {
    observer_.warn(fmt::format("--trace-steps: {} of {} could not make a part of the trace", empty,
                               counted(events.size(), "rank")));
  }
  const std::string file = fmt::format("trace-{}-{}.json", first_, last_);
  if (const Result<void> written = report::write_whole(folder_ + "/" + file, metrics::trace_file(events)); !written) {
    observer_.warn(written.error().text());
    return;
  }
  report_shares(file, shares, clock_error);
}

void StepTrace::report_shares(const std::string& file, const std::vector<metrics::TraceShares>& shares,
                              double clock_error) {
  const auto of_ranks = [&](double metrics::TraceShares::*share) {
    std::vector<std::string> numbers;
    numbers.reserve(shares.size());
    for (const metrics::TraceShares& rank : shares) {
      numbers.push_back(std::isnan(rank.*share) ? "null" : fmt::format("{:.6f}", rank.*share));
    }
    return metrics::RawJson{fmt::format("[{}]", fmt::join(numbers, ","))};
  };
  observer_.note(fmt::format("trace: {}/{}, for https://ui.perfetto.dev", folder_, file));
  observer_.record({{"event", std::string("trace")},
                    {"file", file},
                    {"first_step", first_},
                    {"last_step", last_},
                    {"seconds", of_ranks(&metrics::TraceShares::steps)},
                    {"compute_seconds", of_ranks(&metrics::TraceShares::compute)},
                    {"communication_seconds", of_ranks(&metrics::TraceShares::communication)},
                    {"exposed_communication_seconds", of_ranks(&metrics::TraceShares::exposed)},
                    {"clock_error_seconds", clock_error}});
}

}  // namespace rollcall::train
