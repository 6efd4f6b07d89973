#include "trainer/train/observer/span_recorder.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace rollcall::train {
namespace {

using metrics::Span;

constexpr std::string_view kCompute = "compute: ";

/// The sequence number of nodes that accumulate a gradient: the largest, so that they run as soon as possible.
constexpr auto kAccumulates = std::numeric_limits<std::uint64_t>::max();

std::int64_t this_thread() {
  thread_local const std::int64_t number = ::syscall(SYS_gettid);
  return number;
}

/// A part of the model in its forward pass, and the sequence numbers of the autograd nodes that it created.
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

struct Recorded {
  std::vector<Span> spans;
  std::vector<ForwardPart> parts;
  std::vector<BackwardNode> nodes;
};

/// The data that the callbacks write; they are plain functions and run on any thread.
struct Memory {
  std::atomic<bool> on{false};    ///< record spans that begin
  std::atomic<bool> open{false};  ///< record spans that end
  std::mutex mutex;
  std::set<const Beginning*> under_way;
  Recorded recorded;
  std::size_t most = 0;
  bool was_full = false;

  [[nodiscard]] bool full() const { return recorded.spans.size() + recorded.nodes.size() >= most; }
};

Memory& memory() {
  static Memory only;
  return only;
}

bool has_category(const at::RecordFunction& function) {
  return function.scope() == at::RecordScope::BACKWARD_FUNCTION ||
         std::string_view(function.name()).find(": ") != std::string_view::npos;
}

std::unique_ptr<at::ObserverContext> begin_span(const at::RecordFunction& function) {
  Memory& shared = memory();
  if (!shared.on || !has_category(function)) {
    return nullptr;
  }
  auto beginning = std::make_unique<Beginning>(function.name());
  const std::lock_guard lock(shared.mutex);
  shared.under_way.insert(beginning.get());
  return beginning;
}

void end_span(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) {
    return;
  }
  Memory& shared = memory();
  const auto& begun = static_cast<const Beginning&>(*context);
  Span span{begun.name, begun.thread, begun.time, nanoseconds_now()};
  const std::lock_guard lock(shared.mutex);
  shared.under_way.erase(&begun);
  if (!shared.open || shared.full()) {
    shared.was_full = shared.was_full || shared.open;
    return;
  }
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    shared.recorded.nodes.push_back({static_cast<std::uint64_t>(function.seqNr()), std::move(span)});
    return;
  }
  const std::uint64_t next = at::sequence_number::peek();
  if (span.name.starts_with(kCompute) && begun.sequence < next) {
    shared.recorded.parts.push_back({span.name, begun.sequence, next});
  }
  shared.recorded.spans.push_back(std::move(span));
}

/// Returns the part of the model that created the node; `parts` are sorted by their first number. Empty if none did, as
/// for nodes that weight the loss.
std::string part_of(std::uint64_t sequence, const std::vector<ForwardPart>& parts) {
  const auto after = std::ranges::upper_bound(parts, sequence, {}, &ForwardPart::first);
  return after == parts.begin() || sequence >= std::prev(after)->end ? "" : std::prev(after)->name;
}

/// Returns spans of the parts' backward passes: adjacent nodes of one part on a thread, with the gradient accumulations
/// between them.
std::vector<Span> backward_spans(std::vector<BackwardNode> nodes, std::vector<ForwardPart> parts) {
  std::ranges::sort(parts, {}, &ForwardPart::first);
  std::ranges::sort(nodes, {}, [](const BackwardNode& node) { return std::pair(node.span.thread, node.span.begin); });
  std::vector<Span> spans;
  std::string current;
  for (const BackwardNode& node : nodes) {
    const bool same_thread = !spans.empty() && spans.back().thread == node.span.thread;
    const std::string part = node.sequence == kAccumulates ? current : part_of(node.sequence, parts);
    if (same_thread && part == current) {
      spans.back().end = std::max(spans.back().end, node.span.end);
      continue;
    }
    current = part;
    spans.push_back(node.span);
    spans.back().name = part.empty() ? "compute: backward" : part + " backward";
  }
  return spans;
}

}  // namespace

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

SpanRecorder::SpanRecorder(std::size_t most)
    : callback_(at::addGlobalCallback(at::RecordFunctionCallback(begin_span, end_span)
                                          .scopes({at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION}))) {
  memory().most = most;
  memory().open = true;
}

SpanRecorder::~SpanRecorder() {
  memory().on = false;
  memory().open = false;
  at::removeCallback(callback_);
}

void SpanRecorder::record(bool on) { memory().on = on; }

void SpanRecorder::add(std::string name, std::int64_t begin, std::int64_t end) {
  const std::lock_guard lock(memory().mutex);
  memory().recorded.spans.push_back({std::move(name), this_thread(), begin, end});
}

std::vector<Span> SpanRecorder::take(std::int64_t end) {
  Memory& shared = memory();
  shared.on = false;
  Recorded recorded;
  {
    const std::lock_guard lock(shared.mutex);  // collectives wait for this lock, so hold it briefly
    shared.open = false;
    recorded = std::exchange(shared.recorded, {});
    for (const Beginning* begun : shared.under_way) {
      recorded.spans.push_back({begun->name, begun->thread, begun->time, end});
    }
  }
  std::vector<Span> spans = std::move(recorded.spans);
  const std::vector<Span> backward = backward_spans(std::move(recorded.nodes), std::move(recorded.parts));
  spans.insert(spans.end(), backward.begin(), backward.end());
  std::erase_if(spans, [end](const Span& span) { return span.begin > end; });
  for (Span& span : spans) {
    span.end = std::min(span.end, end);
  }
  return spans;
}

bool SpanRecorder::was_full() const {
  const std::lock_guard lock(memory().mutex);
  return memory().was_full;
}

}  // namespace rollcall::train
