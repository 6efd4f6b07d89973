#include "trainer/train/step_trace.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/report/write_report.h"

namespace rollcall::train {
namespace {

using metrics::Span;

constexpr std::uint32_t kMostRanks = 64;
constexpr std::string_view kCompute = "compute: ";

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t this_thread() {
  thread_local const std::int64_t number = ::syscall(SYS_gettid);
  return number;
}

/// A part of the model in its forward pass, and the sequence numbers of the autograd nodes that it made.
struct ForwardPart {
  std::string name;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

/// An autograd node in the backward pass.
struct BackwardNode {
  std::uint64_t sequence = 0;
  Span span;
};

struct Beginning final : at::ObserverContext {
  explicit Beginning(std::string of) : name(std::move(of)) {}

  std::string name;
  std::int64_t time = nanoseconds_now();
  std::int64_t thread = this_thread();
  std::uint64_t sequence = at::sequence_number::peek();
};

/// What the callbacks of RecordFunction write to: they are plain functions and run on any thread.
struct Recorder {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::set<const Beginning*> under_way;
  std::vector<Span> spans;
  std::vector<ForwardPart> parts;
  std::vector<BackwardNode> nodes;
};

Recorder& recorder() {
  static Recorder only;
  return only;
}

bool is_ours(const at::RecordFunction& function) {
  return function.scope() == at::RecordScope::BACKWARD_FUNCTION ||
         std::string_view(function.name()).find(": ") != std::string_view::npos;
}

std::unique_ptr<at::ObserverContext> begin_span(const at::RecordFunction& function) {
  Recorder& recorded = recorder();
  if (!recorded.on || !is_ours(function)) {
    return nullptr;
  }
  auto beginning = std::make_unique<Beginning>(function.name());
  const std::lock_guard lock(recorded.mutex);
  recorded.under_way.insert(beginning.get());
  return beginning;
}

void end_span(const at::RecordFunction& function, at::ObserverContext* context) {
  Recorder& recorded = recorder();
  if (context == nullptr) {
    return;
  }
  const auto& begun = static_cast<const Beginning&>(*context);
  Span span{begun.name, begun.thread, begun.time, nanoseconds_now()};
  const std::lock_guard lock(recorded.mutex);
  recorded.under_way.erase(&begun);
  if (!recorded.on) {
    return;
  }
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    recorded.nodes.push_back({static_cast<std::uint64_t>(function.seqNr()), std::move(span)});
    return;
  }
  if (span.name.starts_with(kCompute)) {
    recorded.parts.push_back({span.name, begun.sequence, at::sequence_number::peek()});
  }
  recorded.spans.push_back(std::move(span));
}

/// The part of the model that made the node; empty: none did, as of those that weigh the loss.
std::string part_of(std::uint64_t sequence, const std::vector<ForwardPart>& parts) {
  const auto found = std::ranges::find_if(
      parts, [&](const ForwardPart& part) { return part.first <= sequence && sequence < part.end; });
  return found == parts.end() ? "" : found->name;
}

/// Nodes that accumulate a gradient have the largest number, so that they run as soon as they can.
constexpr auto kAccumulates = std::numeric_limits<std::uint64_t>::max();

/// Spans of the parts' backward passes: the nodes of a part that follow each other on a thread, with those between
/// them that accumulate gradients.
std::vector<Span> backward_spans(std::vector<BackwardNode> nodes, const std::vector<ForwardPart>& parts) {
  std::ranges::sort(nodes, {}, [](const BackwardNode& node) { return std::pair(node.span.thread, node.span.begin); });
  std::vector<Span> spans;
  std::string current;
  for (const BackwardNode& node : nodes) {
    const bool same_thread = !spans.empty() && spans.back().thread == node.span.thread;
    const std::string part = part_of(node.sequence, parts);
    if (same_thread && (part == current || node.sequence == kAccumulates)) {
      spans.back().end = std::max(spans.back().end, node.span.end);
      continue;
    }
    current = part;
    spans.push_back(node.span);
    spans.back().name = part.empty() ? "compute: backward" : part + " backward";
  }
  return spans;
}

/// All spans up to `end`; what was under way then, a save, say, as far as it was.
std::vector<Span> take_spans(std::int64_t end) {
  Recorder& recorded = recorder();
  const std::lock_guard lock(recorded.mutex);
  std::vector<Span> spans = std::exchange(recorded.spans, {});
  for (const Beginning* begun : recorded.under_way) {
    spans.push_back({begun->name, begun->thread, begun->time, end});
  }
  const std::vector<Span> backward = backward_spans(std::exchange(recorded.nodes, {}), recorded.parts);
  recorded.parts.clear();
  spans.insert(spans.end(), backward.begin(), backward.end());
  std::erase_if(spans, [end](const Span& span) { return span.begin > end; });
  for (Span& span : spans) {
    span.end = std::min(span.end, end);
  }
  return spans;
}

std::string name_of_thread(std::int64_t thread) {
  std::ifstream file(fmt::format("/proc/self/task/{}/comm", thread));
  std::string name;
  std::getline(file, name);
  return name.empty() ? "thread that has ended" : name;
}

std::string clock_key(std::uint32_t rank, int round, const char* what) {
  return fmt::format("trace clock/{}/{}/{}", rank, round, what);
}

/// What every rank tells rank 0 of itself.
struct RankPart {
  metrics::TraceShares shares{};
  double clock_error = 0;  ///< seconds
  std::string events{};
};

using Head = std::array<double, 5>;

std::vector<std::uint8_t> bytes_of(const RankPart& part) {
  const Head head{part.shares.steps, part.shares.compute, part.shares.communication, part.shares.exposed,
                  part.clock_error};
  std::vector<std::uint8_t> bytes(sizeof head + part.events.size());
  std::memcpy(bytes.data(), head.data(), sizeof head);
  std::memcpy(bytes.data() + sizeof head, part.events.data(), part.events.size());
  return bytes;
}

/// Nothing: of a rank that is not traced.
std::optional<RankPart> part_from(const std::vector<std::uint8_t>& bytes) {
  Head head{};
  if (bytes.size() < sizeof head) {
    return std::nullopt;
  }
  std::memcpy(head.data(), bytes.data(), sizeof head);
  const auto [steps, compute, communication, exposed, clock_error] = head;
  return RankPart{{steps, compute, communication, exposed}, clock_error, {bytes.begin() + sizeof head, bytes.end()}};
}

metrics::Record record_of(const std::string& file, std::int64_t first, std::int64_t last,
                          const std::vector<RankPart>& parts) {
  const auto of_ranks = [&](double metrics::TraceShares::*share) {
    std::vector<std::string> numbers;
    for (const RankPart& part : parts) {
      numbers.push_back(fmt::format("{:.6f}", part.shares.*share));
    }
    return metrics::RawJson{fmt::format("[{}]", fmt::join(numbers, ","))};
  };
  const double clock_error =
      std::ranges::max_element(parts, {}, &RankPart::clock_error)->clock_error;  // rank 0 is among them
  return {{"event", std::string("trace")},
          {"file", file},
          {"first_step", first},
          {"last_step", last},
          {"seconds", of_ranks(&metrics::TraceShares::steps)},
          {"compute_seconds", of_ranks(&metrics::TraceShares::compute)},
          {"communication_seconds", of_ranks(&metrics::TraceShares::communication)},
          {"exposed_communication_seconds", of_ranks(&metrics::TraceShares::exposed)},
          {"clock_error_seconds", clock_error}};
}

}  // namespace

StepTrace::StepTrace(const config::RunConfig& config, const World& world, Observer& observer)
    : steps_(config.trace_steps),
      folder_(config.folder),
      world_(world),
      observer_(observer),
      traced_(steps_ && world.rank < kMostRanks) {
  if (traced_) {
    callback_ = at::addGlobalCallback(at::RecordFunctionCallback(begin_span, end_span)
                                          .scopes({at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION}));
  }
}

StepTrace::~StepTrace() {
  if (traced_) {
    recorder().on = false;
    at::removeCallback(callback_);
  }
}

Result<void> StepTrace::before_step(std::int64_t step) {
  if (!steps_ || step < steps_->first || step > steps_->last) {
    return {};
  }
  if (!recording_) {
    if (Result<void> compared = process_group::guard_collective(world_.process_group, [&] { compare_clocks(); });
        !compared) {
      return compared;
    }
    recording_ = true;
    first_ = step;
  }
  begun_ = nanoseconds_now();
  recorder().on = traced_;
  return {};
}

Result<void> StepTrace::after_step(std::int64_t step) {
  if (!recording_) {
    return {};
  }
  last_ = step;
  ended_ = nanoseconds_now();
  if (traced_) {
    const std::lock_guard lock(recorder().mutex);
    recorder().spans.push_back({fmt::format("step: {}", step), this_thread(), begun_, ended_});
  }
  return step == steps_->last ? write() : Result<void>();
}

Result<void> StepTrace::finish() { return recording_ && last_ >= first_ ? write() : Result<void>(); }

void StepTrace::compare_clocks() {
  const std::uint32_t ranks = std::min(world_.world_size, kMostRanks);
  constexpr int kRounds = 8;
  std::vector<metrics::ClockReading> readings;
  for (int round = 0; round < kRounds; ++round) {
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
      const std::string asks = clock_key(rank, round, "asks");
      const std::string answer = clock_key(rank, round, "answer");
      if (world_.rank == 0) {
        world_.store->get(asks);
        world_.store->set(answer, std::to_string(nanoseconds_now()));
      } else if (world_.rank == rank) {
        const std::int64_t sent = nanoseconds_now();
        world_.store->set(asks, "1");
        const std::int64_t answered = std::stoll(world_.store->get_to_str(answer));
        readings.push_back({sent, answered, nanoseconds_now()});
      }
    }
  }
  if (!readings.empty()) {
    clock_ = metrics::clock_offset(readings);
  }
}

Result<void> StepTrace::write() {
  recording_ = false;
  recorder().on = false;
  RankPart mine;
  mine.clock_error = 1e-9 * static_cast<double>(clock_.error);
  if (traced_) {
    const metrics::TracedRank traced{world_.rank, world_.host, clock_.offset, take_spans(ended_)};
    mine.shares = metrics::shares_of(traced.spans);
    mine.events = metrics::trace_events(traced, name_of_thread);
  }
  const auto gathered =
      process_group::all_gather_bytes(world_.process_group, traced_ ? bytes_of(mine) : std::vector<std::uint8_t>());
  if (!gathered) {
    return gathered.error();
  }
  if (world_.rank != 0) {
    return {};
  }
  std::vector<RankPart> parts;
  std::vector<std::string> events;
  for (const std::vector<std::uint8_t>& bytes : *gathered) {
    if (std::optional<RankPart> part = part_from(bytes)) {
      events.push_back(std::move(part->events));
      parts.push_back(*std::move(part));
    }
  }
  const std::string file = fmt::format("trace-{}-{}.json", first_, last_);
  if (const Result<void> written = report::write_whole(folder_ + "/" + file, metrics::trace_file(events)); !written) {
    observer_.warn(written.error().message());
    return {};
  }
  observer_.traced(record_of(file, first_, last_, parts), folder_ + "/" + file);
  return {};
}

}  // namespace rollcall::train
