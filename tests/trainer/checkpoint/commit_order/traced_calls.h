#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/system_calls.h"

namespace rollcall::testing_support {

/// The calls of `rank`, each once where it follows itself.
inline std::vector<std::string> calls_of(const std::vector<TracedCall>& trace, std::uint32_t rank = 0) {
  std::vector<std::string> calls;
  for (const TracedCall& call : trace) {
    if (call.rank == rank && (calls.empty() || calls.back() != call.text)) {
      calls.push_back(call.text);
    }
  }
  return calls;
}

/// Those that change what is stored, or bring it to the device.
inline std::vector<std::string> without_reads(std::vector<std::string> calls) {
  std::erase_if(calls, [](const std::string& call) { return call.starts_with("read "); });
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  return calls;
}

/// What calls_of() gives of each thread by itself: for work that several of them do at a time.
inline std::vector<std::vector<std::string>> calls_by_thread(const std::vector<TracedCall>& trace) {
  std::vector<pid_t> threads;
  for (const TracedCall& call : trace) {
    if (std::find(threads.begin(), threads.end(), call.thread) == threads.end()) {
      threads.push_back(call.thread);
    }
  }
  std::vector<std::vector<std::string>> calls;
  for (const pid_t thread : threads) {
    std::vector<TracedCall> own;
    std::copy_if(trace.begin(), trace.end(), std::back_inserter(own),
                 [thread](const TracedCall& call) { return call.thread == thread; });
    calls.push_back(calls_of(own, own.front().rank));
  }
  return calls;
}

/// The calls between the marks `from` (or the beginning) and `to`, of `rank`.
inline std::vector<TracedCall> between(const std::vector<TracedCall>& trace, const std::string& from,
                                       const std::string& to, std::uint32_t rank = 0) {
  std::vector<TracedCall> part;
  bool inside = from.empty();
  for (const TracedCall& call : trace) {
    if (call.rank != rank) {
      continue;
    }
    if (call.text == "== " + to) {
      break;
    }
    if (call.text == "== " + from) {
      inside = true;
      part.clear();
    } else if (inside) {
      part.push_back(call);
    }
  }
  return part;
}

}  // namespace rollcall::testing_support
