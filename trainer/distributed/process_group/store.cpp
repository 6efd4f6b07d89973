#include "trainer/distributed/process_group/store.h"

#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::process_group {
namespace {

constexpr const char* kGeneration = "0";
constexpr const char* kArrived = "arrived";
constexpr const char* kComplete = "complete";

c10d::TCPStoreOptions store_options(rendezvous::Meeting& meeting, std::uint32_t rank, std::uint32_t world_size,
                                    std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = meeting.endpoint.port;
  options.isServer = rank == 0;
  options.numWorkers = world_size;
  options.waitWorkers = false;  // it polls; await_all_ranks() waits for a notification
  options.timeout = timeout;
  if (rank == 0 && meeting.listener) {
    options.masterListenFd = meeting.listener->release();
  }
  return options;
}

}  // namespace

Result<c10::intrusive_ptr<c10d::Store>> connect_store(rendezvous::Meeting& meeting, std::uint32_t rank,
                                                      std::uint32_t world_size, std::chrono::milliseconds timeout) {
  c10::intrusive_ptr<c10d::Store> store;
  const std::string endpoint = rendezvous::to_text(meeting.endpoint);
  const Result<void> connected =
      catch_exceptions(Speaker{rank, world_size}, "rendezvous", "no connection to the store at " + endpoint,
                       "looking whether rank 0 is alive and whether a firewall is between the hosts", [&] {
                         auto server = c10::make_intrusive<c10d::TCPStore>(
                             meeting.endpoint.host, store_options(meeting, rank, world_size, timeout));
                         server->setTimeout(timeout);
                         store = c10::make_intrusive<c10d::PrefixStore>(
                             "rollcall/" + rendezvous::to_text(meeting.key) + "/" + kGeneration, server);
                       });
  if (!connected) {
    return connected.error();
  }
  if (const Result<void> complete = await_all_ranks(*store, rank, world_size, timeout); !complete) {
    return complete.error();
  }
  return store;
}

Result<void> await_all_ranks(c10d::Store& store, std::uint32_t rank, std::uint32_t world_size,
                             std::chrono::milliseconds timeout) {
  const Speaker speaker{rank, world_size};
  const std::string action = "looking which tasks did not start, or a longer rendezvous.timeout";
  Result<void> waited = catch_exceptions(speaker, "rendezvous", "not all ranks came", action, [&] {
    if (store.add(kArrived, 1) == static_cast<std::int64_t>(world_size)) {
      store.set(kComplete, std::string("1"));
    }
    store.wait({kComplete}, timeout);
  });
  if (waited) {
    return waited;
  }
  std::int64_t arrived = 0;
  Result<void> asked =
      catch_exceptions(speaker, "rendezvous", "the store is gone", action, [&] { arrived = store.add(kArrived, 0); });
  if (!asked) {
    return asked;
  }
  return fail("rendezvous", speaker.text(),
              "only " + std::to_string(arrived) + " of " + std::to_string(world_size) + " ranks came within " +
                  std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) + " s",
              action, ExitCode::Unavailable);
}

}  // namespace rollcall::process_group
