// Connects the ranks of a group over UCX.
#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <random>

#include "trainer/distributed/backends/ucx/engine/context.h"
#include "trainer/distributed/backends/ucx/engine/engine.h"
#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group::ucx {
namespace {

/// The record that a rank publishes.
struct Record {
  std::uint32_t generation = 0;  ///< a random number; rank 0's is used
  std::string identity;          ///< process_identity()
  std::string card;              ///< maps its shared memory
  std::string address;           ///< address of its worker
};

/// Returns the record as bytes: the generation and the lengths of the first two texts as native integers, then the
/// texts.
std::string pack(const Record& record) {
  const std::array<std::uint32_t, 3> head{record.generation, static_cast<std::uint32_t>(record.identity.size()),
                                          static_cast<std::uint32_t>(record.card.size())};
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), head.data(), sizeof head);
  return bytes + record.identity + record.card + record.address;
}

Record unpack(const std::string& bytes) {
  std::array<std::uint32_t, 3> head{};
  std::memcpy(head.data(), bytes.data(), std::min(sizeof head, bytes.size()));
  const std::string texts = bytes.substr(sizeof head);
  return Record{head[0], texts.substr(0, head[1]), texts.substr(head[1], head[2]), texts.substr(head[1] + head[2])};
}

/// Connects the worker. Returns whether this rank has mapped the shared memory of all others, and may use it.
Result<bool> connect_worker(Worker& worker, Windows& windows, std::uint32_t rank, const Exchange& exchange) {
  std::random_device random;
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   exchange(pack(Record{random(), process_identity(), windows.card(), worker.address()})));
  bool sees_all = may_use_windows();
  std::vector<std::string> addresses;
  for (std::uint32_t peer = 0; peer < all.size(); ++peer) {
    const Record record = unpack(all.at(peer));
    addresses.push_back(record.address);
    if (peer != rank) {
      worker.watch(peer, record.identity);
      sees_all = sees_all && windows.see(peer, record.identity, record.card);
    }
  }
  const Result<void> connected = worker.connect(addresses, unpack(all.at(0)).generation);
  return connected ? Result<bool>(sees_all) : connected.error();
}

/// Exchanges a byte with every other rank, which says whether its sender has mapped all shared memory. Returns whether
/// all have.
Result<bool> greet(Engine& engine, bool sees_all, std::uint32_t world_size, std::chrono::milliseconds timeout) {
  constexpr std::byte kSeesAll{1};
  std::vector<std::byte> out(world_size, sees_all ? kSeesAll : std::byte{0});
  std::vector<std::byte> in(world_size);
  std::promise<std::string> ended;
  Operation greeting;
  greeting.name = "greeting";
  greeting.timeout = timeout;
  greeting.collective.kind = CollectiveKind::AllToAll;
  greeting.collective.bytes = 1;
  greeting.collective.input = out.data();
  greeting.collective.output = in.data();
  greeting.done = [&](const std::string& failure, std::uint32_t) { ended.set_value(failure); };
  engine.submit(std::move(greeting));
  const std::string failure = ended.get_future().get();
  if (failure.empty()) {
    return std::all_of(in.begin(), in.end(), [](std::byte one) { return one == kSeesAll; });
  }
  return fail("--backend", "ucx", failure, "checking that all ranks reach each other over the devices of interface.ucx",
              ErrorKind::Unavailable);
}

}  // namespace

Result<std::unique_ptr<Engine>> connect(std::uint32_t rank, std::uint32_t world_size, const Exchange& exchange,
                                        std::chrono::milliseconds timeout, const RankNames& names,
                                        std::shared_ptr<ProcessWatch> processes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Context> context, Context::get());
  ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker,
                   Worker::create(context, rank, world_size, names, std::move(processes)));
  auto windows = std::make_unique<Windows>(world_size);
  ASSIGN_OR_RETURN(const bool sees_all, connect_worker(*worker, *windows, rank, exchange));
  auto engine = std::make_unique<Engine>(std::move(worker), std::move(windows), rank, world_size);
  ASSIGN_OR_RETURN(const bool all_see_all, greet(*engine, sees_all, world_size, timeout));
  if (all_see_all) {
    engine->use_windows();
  }
  return engine;
}

}  // namespace rollcall::process_group::ucx
