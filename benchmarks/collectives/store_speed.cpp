// The trainer's key-value store beside c10d::TCPStore, in turn in one run; both over loopback, ours sealed as after
// admission. Prints one JSON line: microseconds, medians.
//   set_get    a value set and got again, by a process that does not hold the store
//   own        the same by rank 0, which holds it
//   waiters    until 64 threads of a process that wait for one key have all been told that it is there
//   world      until all of RANKS new processes are connected and have made a process group of Gloo's
// usage: store_speed [ROUNDS [RANKS [WHAT]]]
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "trainer/distributed/process_group/factory.h"
#include "trainer/distributed/process_group/store.h"
#include "trainer/torch.h"

namespace {

using namespace rollcall;
using Store = c10::intrusive_ptr<c10d::Store>;

constexpr std::chrono::seconds kPatience{60};
constexpr int kPairs = 200;  ///< of set and get in a round
constexpr int kThreads = 64;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What ranks need to connect, made before they are forked: rank 0 listens.
class Connections {
 public:
  Connections(bool ours, std::uint32_t ranks) : ours_(ours), ranks_(ranks) {
    const rendezvous::Endpoint endpoint{"127.0.0.1", listener_.port()};
    for (std::uint32_t rank = 1; ours && rank < ranks; ++rank) {
      const auto until = rendezvous::Clock::now() + kPatience;
      heads_.push_back(rendezvous::connect_once(endpoint, until).descriptor);
      members_.push_back(accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    }
  }
  ~Connections() {
    for (const std::vector<int>* const all : {&heads_, &members_}) {
      std::ranges::for_each(*all, close);
    }
  }

  /// The store of `rank`, in its process.
  Store connect(std::uint32_t rank) {
    if (!ours_) {
      c10d::TCPStoreOptions options{.port = listener_.port(), .isServer = rank == 0, .waitWorkers = false};
      if (rank == 0) {
        options.masterListenFd = dup(listener_.descriptor());
      }
      return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    }
    using rendezvous::End;
    const rendezvous::Seal seal{rendezvous::Secret::of("drawn", "world"), "benchmark"};
    rendezvous::Meeting meeting;
    for (std::uint32_t other = 1; rank == 0 && other < ranks_; ++other) {
      meeting.members.emplace(other, rendezvous::Socket(dup(members_[other - 1]), End::Server, seal));
    }
    if (rank > 0) {
      meeting.head = rendezvous::Socket(dup(heads_[rank - 1]), End::Client, seal);
    }
    return process_group::connect_store(meeting, rank, ranks_, kPatience).value();
  }

 private:
  bool ours_;
  std::uint32_t ranks_;
  rendezvous::Listener listener_ = std::move(rendezvous::Listener::on_loopback().value());
  std::vector<int> heads_;
  std::vector<int> members_;
};

/// Runs `work` in processes of their own and returns the longest time that one of them told.
double longest_of(std::uint32_t ranks, const std::function<double(std::uint32_t)>& work) {
  std::array<int, 2> told{};
  TORCH_CHECK(pipe(told.data()) == 0);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (fork() == 0) {
      at::set_num_threads(1);
      const double time = work(rank);
      _exit(write(told[1], &time, sizeof time) == sizeof time ? 0 : 1);
    }
  }
  close(told[1]);
  double longest = 0;
  for (double time = 0; read(told[0], &time, sizeof time) == sizeof time;) {
    longest = std::max(longest, time);
  }
  close(told[0]);
  while (wait(nullptr) > 0) {
  }
  return longest;
}

double set_and_get(c10d::Store& store) {
  const double begin = now_us();
  for (int i = 0; i < kPairs; ++i) {
    store.set("key", std::string("a value of some bytes"));
    store.get("key");
  }
  return (now_us() - begin) / kPairs;
}

double tell_waiters(const Store& store) {
  std::latch waiting(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, own = store->clone()] {
      waiting.count_down();
      own->wait({"go"});
    });
  }
  waiting.wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until they wait in the store
  const double begin = now_us();
  store->clone()->set("go", std::string("1"));
  for (std::thread& thread : threads) {
    thread.join();
  }
  return now_us() - begin;
}

/// Rank 0 leaves last.
void leave(c10d::Store& store, std::uint32_t rank, std::uint32_t ranks) {
  store.add("left", 1);
  while (rank == 0 && store.add("left", 0) < ranks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Of two ranks, rank 1 works.
double by_another(bool ours, const std::function<double(const Store&)>& work) {
  Connections connections(ours, 2);
  return longest_of(2, [&](std::uint32_t rank) {
    const Store store = connections.connect(rank);
    const double time = rank == 1 ? work(store) : 0;
    leave(*store, rank, 2);
    return time;
  });
}

double start_world(bool ours, std::uint32_t ranks) {
  Connections connections(ours, ranks);
  const double begin = now_us();
  return longest_of(ranks, [&](std::uint32_t rank) {
    const Store store = connections.connect(rank);
    const auto own = c10::make_intrusive<c10d::PrefixStore>("world", store);
    const auto group = process_group::make_process_group(own, rank, ranks, {.backend = "gloo"});
    const double time = group.has_value() ? now_us() - begin : kPatience.count() * 1e6;
    leave(*store, rank, ranks);
    return time;
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  const auto ranks = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 4);
  setenv("GLOO_SOCKET_IFNAME", "lo", 0);
  const std::vector<std::pair<std::string, std::function<double(bool)>>> measured{
      {"set_get", [](bool ours) { return by_another(ours, [](const Store& store) { return set_and_get(*store); }); }},
      {"own",
       [](bool ours) {
         return longest_of(1, [&](std::uint32_t) { return set_and_get(*Connections(ours, 1).connect(0)); });
       }},
      {"waiters", [](bool ours) { return by_another(ours, tell_waiters); }},
      {"world", [&](bool ours) { return start_world(ours, ranks); }},
  };
  std::string line;
  for (const auto& [name, measure] : measured) {
    if (argc > 3 && name != argv[3]) {
      continue;
    }
    std::array<std::vector<double>, 2> times;
    for (int round = 0; round < 2 * rounds; ++round) {
      const bool ours = (round + round / 2) % 2 == 0;
      times[ours ? 0 : 1].push_back(measure(ours));
    }
    line += fmt::format("{}\"{}\": {{\"ours\": {:.1f}, \"TCPStore\": {:.1f}}}", line.empty() ? "" : ", ", name,
                        median(times[0]), median(times[1]));
  }
  std::printf("{%s}\n", line.c_str());
  return 0;
}
