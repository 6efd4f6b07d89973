// What strangers who reach rank 0's port cost: the time of a rank's admission, and rank 0's memory, beside nobody and
// beside connections that are silent or send garbage. usage: strangers [CONNECTIONS]; as root, for the number of open
// files
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/rendezvous/admission.h"
#include "tests/support/crowd.h"

namespace {

using namespace rollcall;
using namespace rollcall::rendezvous;
constexpr std::chrono::seconds kLimit{60};

/// Seconds of a rank's admission to a world of two while `strangers` are connected.
double admission(std::size_t strangers) {
  const WorldKey key{"4711-0-0", "0"};
  const Secret secret = Secret::of("drawn", key.name);
  const Result<Listener> own = Listener::on_all_addresses(0);
  if (!own) {
    return -1;
  }
  std::optional<Crowd> crowd;
  if (strangers > 0) {
    crowd.emplace(own->port(), strangers);
  }
  auto zero = std::async(std::launch::async, [&] { return admit_others(*own, key, secret, 2, kLimit); });
  const bool all_came = !crowd || crowd->await();
  const LocationSource source = [&] { return Locations{{{{"127.0.0.1", own->port()}, secret}}, ""}; };
  const auto began = Clock::now();
  const Result<Admission> admitted = be_admitted(source, {key.name, 1, 2}, kLimit, "", "");
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return admitted && zero.get() && all_came ? seconds : -1;
}

void measure(std::size_t strangers, int repetitions) {
  std::vector<double> times;
  const std::size_t before = resident_kilobytes();
  for (int i = 0; i < repetitions; ++i) {
    times.push_back(admission(strangers));
  }
  std::ranges::sort(times);
  fmt::print("{:6} strangers: admitted after {:.2f} ms (median of {}, worst {:.2f}), {} KB more\n", strangers,
             times[times.size() / 2] * 1e3, repetitions, times.back() * 1e3, resident_kilobytes() - before);
}

}  // namespace

int main(int argument_count, char** arguments) {
  raise_open_files_limit();
  const auto strangers = parse_integer<std::size_t>(argument_count > 1 ? arguments[1] : "5000");
  measure(0, 201);
  measure(strangers.value_or(5000), 5);
}
