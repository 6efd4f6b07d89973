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
  std::string handle;            ///< maps its shared memory
  std::string address;           ///< address of its worker
};

/// Returns the record as bytes: the generation and the lengths of the first two texts as native integers, then the
/// texts.
std::string pack(const Record& record) {
  const std::array<std::uint32_t, 3> head{record.generation, static_cast<std::uint32_t>(record.identity.size()),
                                          static_cast<std::uint32_t>(record.handle.size())};
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), head.data(), sizeof head);
  return bytes + record.identity + record.handle + record.address;
}

Record unpack(const std::string& bytes) {
  std::array<std::uint32_t, 3> head{};
  std::memcpy(head.data(), bytes.data(), std::min(sizeof head, bytes.size()));
  const std::string texts = bytes.substr(sizeof head);
  return Record{head[0], texts.substr(0, head[1]), texts.substr(head[1], head[2]), texts.substr(head[1] + head[2])};
}

/// Connects the worker. Returns whether this rank has mapped the shared memory of all others, and may use it.
Result<bool> connect_worker(Worker& worker, SharedSegments& shared_memory, std::uint32_t rank,
                            const BootstrapAllGather& all_gather) {
  std::random_device random;
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   all_gather(pack(Record{random(), process_identity(), shared_memory.handle(), worker.address()})));
  bool maps_all = may_use_shared_segments();
  std::vector<std::string> addresses;
  for (std::uint32_t peer = 0; peer < all.size(); ++peer) {
    const Record record = unpack(all.at(peer));
    addresses.push_back(record.address);
    if (peer != rank) {
      worker.watch(peer, record.identity);
      maps_all = maps_all && shared_memory.map_peer(peer, record.identity, record.handle);
    }
  }
  const Result<void> connected = worker.connect(addresses, unpack(all.at(0)).generation);
  return connected ? Result<bool>(maps_all) : connected.error();
}

/// Exchanges a byte with every other rank, which says whether its sender has mapped all shared memory. Returns whether
/// all have.
Result<bool> greet(Engine& engine, bool maps_all, std::uint32_t world_size, std::chrono::milliseconds timeout) {
  constexpr std::byte kMapsAll{1};
  std::vector<std::byte> out(world_size, maps_all ? kMapsAll : std::byte{0});
  std::vector<std::byte> in(world_size);
  std::promise<std::string> ended;
  Operation greeting;
  greeting.name = "greeting";
  greeting.timeout = timeout;
  greeting.collective.kind = CollectiveKind::AllToAll;
  greeting.collective.bytes = 1;
  greeting.collective.input = out.data();
  greeting.collective.output = in.data();
  greeting.done = [&](const std::string& failure) { ended.set_value(failure); };
  engine.submit(std::move(greeting));
  const std::string failure = ended.get_future().get();
  if (failure.empty()) {
    return std::all_of(in.begin(), in.end(), [](std::byte one) { return one == kMapsAll; });
  }
  return fail("--backend", "ucx", failure, "checking that all ranks reach each other over the devices of interface.ucx",
              ErrorKind::Unavailable);
}

}  // namespace

Result<std::unique_ptr<Engine>> connect(std::uint32_t rank, std::uint32_t world_size,
                                        const BootstrapAllGather& all_gather, std::chrono::milliseconds timeout,
                                        const RankNames& names, std::shared_ptr<ProcessWatch> processes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Context> context, Context::get());
  ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker,
                   Worker::create(context, rank, world_size, names, std::move(processes)));
  auto shared_memory = std::make_unique<SharedSegments>(world_size);
  ASSIGN_OR_RETURN(const bool maps_all, connect_worker(*worker, *shared_memory, rank, all_gather));
  auto engine = std::make_unique<Engine>(std::move(worker), std::move(shared_memory), rank, world_size);
  ASSIGN_OR_RETURN(const bool all_map_all, greet(*engine, maps_all, world_size, timeout));
  if (all_map_all) {
    engine->use_shared_memory();
  }
  return engine;
}

}  // namespace rollcall::process_group::ucx
