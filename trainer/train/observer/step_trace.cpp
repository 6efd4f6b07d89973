#include "trainer/train/observer/step_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/untrusted_json.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/report/page.h"

namespace rollcall::train {
namespace {

constexpr std::uint32_t kMostRanks = 64;
constexpr std::size_t kMostSpans = 1'000'000;  // of all ranks: some 150 MB, more than a browser opens with ease
constexpr std::size_t kMostSpansOfRank = 200'000;
constexpr int kRounds = 8;  // of questions about the clock
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::seconds kPatienceForTurn{120};  // while rank 0 takes what the ranks before have
constexpr const char* kYourTurn = "your turn";

std::string name_of_thread(std::int64_t thread) {
  std::ifstream file(fmt::format("/proc/self/task/{}/comm", thread));
  std::string name;
  std::getline(file, name);
  return name.empty() ? "thread that has ended" : name;
}

/// A word in the store, which is waited for and then removed.
std::string take_word(c10d::Store& store, const std::string& key, std::chrono::seconds patience = kPatience) {
  store.wait({key}, patience);
  std::string word = store.get_to_str(key);
  store.deleteKey(key);
  return word;
}

std::string key_of(std::uint32_t rank, const char* what, int number = 0) {
  return fmt::format("trace/{}/{}/{}", rank, what, number);
}

/// What rank 0 needs of a part besides its events; a share that is not known is null.
std::string head_of(const metrics::TraceShares& shares, std::optional<double> clock_error) {
  return nlohmann::json{shares.steps, shares.compute, shares.communication, shares.exposed,
                        clock_error ? nlohmann::json(*clock_error) : nlohmann::json()}
      .dump();
}

double number(const nlohmann::json& value) { return value.is_number() ? value.get<double>() : std::nan(""); }

}  // namespace

StepTrace::StepTrace(const config::RunConfig& config, const World& world, Observer& observer)
    : steps_(config.trace_steps),
      folder_(config.folder),
      world_(world),
      observer_(observer),
      traced_ranks_(std::min(world.world_size, kMostRanks)),
      traced_(world.rank < traced_ranks_) {
  if (steps_ && traced_) {
    recorder_.emplace(std::min(kMostSpansOfRank, kMostSpans / traced_ranks_));
  }
}

Result<void> StepTrace::before_step(std::int64_t step) {
  if (!steps_ || step < steps_->first || step > steps_->last) {
    return {};
  }
  if (first_ == 0) {
    // All are here before anybody's question waits for an answer: who comes late delays no clock.
    if (Result<void> met = process_group::barrier(world_.process_group); !met) {
      return met;
    }
    compare_clocks();
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
    observer_.warn(fmt::format("--trace-steps: {}-{}: this run did none of these steps", steps_->first, steps_->last));
  }
  if (!begun_ || last_ == 0) {
    return {};
  }
  if (ending == Ending::Interrupted) {
    observer_.warn(fmt::format("--trace-steps: the run was interrupted after step {}: there is no trace", last_));
    return {};
  }
  return write();
}

void StepTrace::compare_clocks() {
  std::vector<metrics::ClockReading> readings;
  try {
    for (std::uint32_t rank = 1; rank < traced_ranks_; ++rank) {
      if (world_.rank == 0) {
        world_.store->set(key_of(rank, "asks"), kYourTurn);
        for (int round = 0; round < kRounds; ++round) {
          take_word(*world_.store, key_of(rank, "question", round));
          world_.store->set(key_of(rank, "answer", round), std::to_string(nanoseconds_now()));
        }
      } else if (world_.rank == rank) {
        take_word(*world_.store, key_of(rank, "asks"));
        for (int round = 0; round < kRounds; ++round) {
          const std::int64_t sent = nanoseconds_now();
          world_.store->set(key_of(rank, "question", round), "?");
          world_.store->wait({key_of(rank, "answer", round)}, kPatience);
          const std::int64_t heard = nanoseconds_now();
          readings.push_back({sent, std::stoll(take_word(*world_.store, key_of(rank, "answer", round))), heard});
        }
      }
    }
  } catch (const std::exception&) {
    // Told with the trace: its clock is not known.
  }
  if (!readings.empty()) {
    clock_ = metrics::clock_offset(readings);
  }
}

StepTrace::Part StepTrace::make_part() {
  if (!recorder_) {
    return {};
  }
  try {
    const std::int64_t offset = clock_ ? clock_->offset : 0;
    const metrics::TracedRank traced{world_.rank, world_.host, offset, recorder_->take(step_ended_)};
    Part part{metrics::shares_of(traced.spans), metrics::trace_events(traced, name_of_thread)};
    if (world_.device.type() != at::kCPU) {  // it computes and communicates later than the host says
      part.shares.compute = part.shares.communication = part.shares.exposed = std::nan("");
    }
    return part;
  } catch (const std::exception&) {
    return {};
  }
}

Result<void> StepTrace::write() {
  begun_ = false;
  Part part = make_part();
  const bool full = recorder_ && recorder_->was_full();
  recorder_.reset();
  // What a rank made in minutes nobody waits for in the store.
  if (Result<void> made = process_group::barrier(world_.process_group); !made) {
    return made;
  }
  if (full) {
    observer_.warn("--trace-steps: there was no room for all spans of so many steps: the last ones lack some");
  }
  try {
    world_.rank == 0 ? collect(std::move(part)) : give(part);
  } catch (const std::exception& error) {
    observer_.warn(fmt::format("--trace-steps: there is no trace: {}", error.what()));
  }
  return {};
}

void StepTrace::give(const Part& part) {
  if (traced_ && take_word(*world_.store, key_of(world_.rank, "gives"), kPatienceForTurn) == kYourTurn) {
    const auto error = clock_ ? std::optional(1e-9 * static_cast<double>(clock_->error)) : std::nullopt;
    world_.store->set(key_of(world_.rank, "head"), head_of(part.shares, error));
    world_.store->set(key_of(world_.rank, "events"), part.events);
  }
}

void StepTrace::collect(Part part) {
  std::vector<metrics::TraceShares> shares{part.shares};
  std::vector<std::string> events{std::move(part.events)};
  double clock_error = 0;
  std::uint32_t rank = 1;
  try {
    for (; rank < traced_ranks_; ++rank) {
      world_.store->set(key_of(rank, "gives"), kYourTurn);
      const auto head = parse_untrusted(take_word(*world_.store, key_of(rank, "head"))).value_or(nlohmann::json());
      shares.push_back({number(head.at(0)), number(head.at(1)), number(head.at(2)), number(head.at(3))});
      clock_error += std::max(0.0, number(head.at(4)) - clock_error);  // not a number once one is not
      events.push_back(take_word(*world_.store, key_of(rank, "events")));
    }
  } catch (const std::exception&) {
    while (++rank < traced_ranks_) {
      world_.store->set(key_of(rank, "gives"), "nobody waits for it");
    }
    throw;
  }
  if (const auto empty = std::ranges::count_if(events, &std::string::empty); empty > 0) {
    observer_.warn(
        fmt::format("--trace-steps: {} of {} ranks could not make their part of the trace", empty, events.size()));
  }
  const std::string file = fmt::format("trace-{}-{}.json", first_, last_);
  if (const Result<void> written = report::write_whole(folder_ + "/" + file, metrics::trace_file(events)); !written) {
    observer_.warn(written.error().text());
    return;
  }
  tell(file, shares, clock_error);
}

void StepTrace::tell(const std::string& file, const std::vector<metrics::TraceShares>& shares, double clock_error) {
  const auto of_ranks = [&](double metrics::TraceShares::*share) {
    std::vector<std::string> numbers;
    numbers.reserve(shares.size());
    for (const metrics::TraceShares& rank : shares) {
      numbers.push_back(std::isnan(rank.*share) ? "null" : fmt::format("{:.6f}", rank.*share));
    }
    return metrics::RawJson{fmt::format("[{}]", fmt::join(numbers, ","))};
  };
  if (std::isnan(clock_error)) {
    observer_.warn("--trace-steps: a rank's clock could not be compared: its times may be off");
  }
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
