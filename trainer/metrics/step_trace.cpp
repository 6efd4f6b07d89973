#include "trainer/metrics/step_trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace rollcall::metrics {
namespace {

using Json = nlohmann::ordered_json;

struct Interval {
  std::int64_t begin;
  std::int64_t end;
};

std::string_view category_of(const Span& span) {
  const std::size_t colon = span.name.find(": ");
  return colon == std::string::npos ? std::string_view() : std::string_view(span.name).substr(0, colon);
}

/// Returns the union of `intervals` as sorted disjoint intervals.
std::vector<Interval> united(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  std::vector<Interval> all;
  for (const Interval& next : intervals) {
    if (all.empty() || next.begin > all.back().end) {
      all.push_back(next);
    } else {
      all.back().end = std::max(all.back().end, next.end);
    }
  }
  return all;
}

/// Returns `from` without `less`; both must be united().
std::vector<Interval> without(const std::vector<Interval>& from, const std::vector<Interval>& less) {
  std::vector<Interval> rest;
  auto cut = less.begin();
  for (Interval left : from) {
    for (; cut != less.end() && cut->end <= left.begin; ++cut) {
    }
    for (auto next = cut; next != less.end() && next->begin < left.end; ++next) {
      if (next->begin > left.begin) {
        rest.push_back({left.begin, next->begin});
      }
      left.begin = std::max(left.begin, next->end);
    }
    if (left.begin < left.end) {
      rest.push_back(left);
    }
  }
  return rest;
}

/// Returns the intersection of `part` and `whole`.
std::vector<Interval> within(const std::vector<Interval>& part, const std::vector<Interval>& whole) {
  return without(part, without(part, whole));
}

std::vector<Interval> of_category(const std::vector<Span>& spans, std::string_view category) {
  std::vector<Interval> intervals;
  for (const Span& span : spans) {
    if (category_of(span) == category) {
      intervals.push_back({span.begin, span.end});
    }
  }
  return united(std::move(intervals));
}

/// Returns the times in which a thread computes. A thread that waits within a computation does not compute.
std::vector<Interval> computing(const std::vector<Span>& spans) {
  std::map<std::int64_t, std::vector<Span>> threads;
  for (const Span& span : spans) {
    threads[span.thread].push_back(span);
  }
  std::vector<Interval> all;
  for (const auto& [thread, of_thread] : threads) {
    const std::vector<Interval> working = without(of_category(of_thread, "compute"), of_category(of_thread, "wait"));
    all.insert(all.end(), working.begin(), working.end());
  }
  return united(std::move(all));
}

/// Returns the collectives of threads that run steps or parts of them.
std::vector<Interval> communicating(const std::vector<Span>& spans) {
  std::set<std::int64_t> threads;
  for (const Span& span : spans) {
    if (category_of(span) == "step" || category_of(span) == "compute") {
      threads.insert(span.thread);
    }
  }
  std::vector<Span> theirs = spans;
  std::erase_if(theirs, [&](const Span& span) { return !threads.contains(span.thread); });
  return of_category(theirs, "collective");
}

double seconds(const std::vector<Interval>& intervals) {
  std::int64_t sum = 0;
  for (const Interval& interval : intervals) {
    sum += interval.end - interval.begin;
  }
  return 1e-9 * static_cast<double>(sum);
}

double microseconds(std::int64_t nanoseconds) { return 1e-3 * static_cast<double>(nanoseconds); }

/// Formats a naming event `what`, whose argument `key` has the name. Names may be arbitrary bytes: those of threads are
/// cut after 15.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json named(const char* what, const char* key, std::uint32_t rank, std::int64_t thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{key, name}}}};
}

/// Formats an event that may overlap others of its track, as a begin and an end with the same id.
void add_overlapping(Json event, std::int64_t begin, std::int64_t end, std::size_t id, std::string& text) {
  event["id2"] = {{"local", std::to_string(id)}};
  for (const auto& [phase, time] : {std::pair{"b", begin}, std::pair{"e", end}}) {
    event["ph"] = phase;
    event["ts"] = microseconds(time);
    text += ",\n" + text_of(event);
  }
}

}  // namespace

TraceShares shares_of(const std::vector<Span>& spans) {
  const std::vector<Interval> steps = of_category(spans, "step");
  const std::vector<Interval> compute = within(computing(spans), steps);
  const std::vector<Interval> communication = within(communicating(spans), steps);
  return {.steps = seconds(steps),
          .compute = seconds(compute),
          .communication = seconds(communication),
          .exposed = seconds(without(communication, compute))};
}

ClockOffset clock_offset(const std::vector<ClockReading>& readings) {
  ClockReading shortest = readings.front();
  for (const ClockReading& reading : readings) {
    if (reading.heard - reading.sent < shortest.heard - shortest.sent) {
      shortest = reading;
    }
  }
  const std::int64_t error = (shortest.heard - shortest.sent) / 2;
  return {.offset = shortest.answered - (shortest.sent + error), .error = error};
}

std::string trace_events(const TracedRank& traced, std::string (*thread_name)(std::int64_t thread)) {
  std::string text = text_of(named("process_name", "name", traced.rank, 0, "rank " + std::to_string(traced.rank)));
  text += ",\n" + text_of(named("process_labels", "labels", traced.rank, 0, traced.host));
  std::map<std::int64_t, bool> known;
  std::size_t id = 0;
  for (const Span& span : traced.spans) {
    const std::string category(category_of(span));
    const std::string what = category.empty() ? span.name : span.name.substr(category.size() + 2);
    const std::int64_t begin = span.begin + traced.clock_offset;
    Json event = {{"name", what}, {"cat", category}, {"pid", traced.rank}, {"tid", span.thread}};
    if (category == "collective") {
      add_overlapping(std::move(event), begin, span.end + traced.clock_offset, ++id, text);
      continue;
    }
    if (!std::exchange(known[span.thread], true)) {
      text += ",\n" + text_of(named("thread_name", "name", traced.rank, span.thread, thread_name(span.thread)));
    }
    event["ph"] = "X";
    event["ts"] = microseconds(begin);
    event["dur"] = microseconds(span.end - span.begin);
    text += ",\n" + text_of(event);
  }
  return text;
}

std::string trace_file(const std::vector<std::string>& events_of_ranks) {
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  const char* separator = "";
  for (const std::string& events : events_of_ranks) {
    if (!events.empty()) {
      text += separator + events;
      separator = ",\n";
    }
  }
  return text + "\n]}\n";
}

}  // namespace rollcall::metrics
