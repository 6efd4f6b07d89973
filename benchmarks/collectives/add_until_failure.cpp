// One rank that adds up until that fails, and prints when it did: what kill_latency.py measures.
// usage: add_until_failure BACKEND watched|bare RANK RANKS PORT/PREFIX MIB
// or, for the ranks' store at PORT, which it prints: add_until_failure store; until its input ends
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "trainer/distributed/backends/backends.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/torch.h"

namespace {

namespace process_group = rollcall::process_group;

constexpr std::chrono::seconds kTimeout{60};

process_group::Group bare_group(const c10::intrusive_ptr<c10d::Store>& store, const std::string& backend, int rank,
                                int size) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  const process_group::BackendOptions options{.timeout = kTimeout};
  const process_group::Backend& chosen = backend == "ucx" ? process_group::kUcx : process_group::kGloo;
  TORCH_CHECK(chosen.add != nullptr, chosen.missing);
  chosen.add(*group, store, options);
  group->setGroupName("latency");
  return group;
}

/// Of all runs, so that no rank that is killed takes it along.
int serve_store() {
  const c10d::TCPStore store("127.0.0.1", {.port = 0, .isServer = true, .waitWorkers = false});
  std::printf("%d\n", static_cast<int>(store.getPort()));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

c10::intrusive_ptr<c10d::Store> store_at(const std::string& place) {
  const std::size_t slash = place.find('/');
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(place.substr(0, slash)));
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::PrefixStore>(place.substr(slash + 1),
                                                c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string>{"store"}) {
    return serve_store();
  }
  if (arguments.size() != 6) {
    std::fputs("usage: add_until_failure BACKEND watched|bare RANK RANKS PORT/PREFIX MIB\n", stderr);
    return 64;
  }
  std::signal(SIGPIPE, SIG_IGN);  // as in the trainer: Gloo writes to peers that may have died
  at::set_num_threads(1);
  const int rank = std::stoi(arguments[2]);
  const int size = std::stoi(arguments[3]);
  const auto store = store_at(arguments[4]);
  process_group::Group group;
  if (arguments[1] == "watched") {
    const auto made =
        process_group::make_process_group(store, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size),
                                          {.backend = arguments[0], .timeout = kTimeout});
    group = made.value().process_group;
  } else {
    group = bare_group(store, arguments[0], rank, size);
  }
  std::vector<at::Tensor> tensors{torch::ones({std::stol(arguments[5]) << 18})};
  try {
    for (bool first = true;; first = false) {
      group->allreduce(tensors)->wait();
      if (first) {
        std::puts("adding");
        std::fflush(stdout);
      }
    }
  } catch (const std::exception& error) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::string text = error.what();
    std::printf("%.6f %s\n", std::chrono::duration<double>(now).count(), text.substr(0, text.find('\n')).c_str());
    std::fflush(stdout);
    _exit(0);  // a backend may take its time to let go
  }
}
