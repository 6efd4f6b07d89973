#include "trainer/process_group/ucx/connect.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <random>

#include "trainer/process_group/processes/process_identity.h"

namespace rollcall::process_group::ucx {
namespace {

/// What a rank publishes.
struct Record {
  std::uint32_t generation = 0;  ///< its proposal, of which rank 0's counts
  std::string identity;          ///< of its process
  std::string address;           ///< of its worker
};

/// As bytes: the generation and the identity's length as integers of this machine, then both texts.
std::string pack(const Record& record) {
  const std::array<std::uint32_t, 2> head{record.generation, static_cast<std::uint32_t>(record.identity.size())};
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), head.data(), sizeof head);
  return bytes + record.identity + record.address;
}

Record unpack(const std::string& bytes) {
  std::array<std::uint32_t, 2> head{};
  std::memcpy(head.data(), bytes.data(), std::min(sizeof head, bytes.size()));
  return Record{head[0], bytes.substr(sizeof head, head[1]), bytes.substr(sizeof head + head[1])};
}

Result<void> connect_worker(Worker& worker, std::uint32_t rank, const Exchange& exchange) {
  std::random_device random;
  const Result<std::vector<std::string>> all = exchange(pack(Record{random(), process_identity(), worker.address()}));
  if (!all) {
    return all.error();
  }
  std::vector<std::string> addresses;
  for (std::uint32_t peer = 0; peer < all->size(); ++peer) {
    const Record record = unpack(all->at(peer));
    addresses.push_back(record.address);
    if (peer != rank) {
      worker.watch(peer, record.identity);
    }
  }
  return worker.connect(addresses, unpack(all->at(0)).generation);
}

/// A byte to and from every other rank.
Result<void> greet(Engine& engine, std::uint32_t world_size, std::chrono::milliseconds timeout) {
  std::vector<std::byte> out(world_size);
  std::vector<std::byte> in(world_size);
  const std::vector<std::size_t> sizes(world_size, 1);
  std::promise<std::string> ended;
  Operation greeting;
  greeting.name = "greeting";
  greeting.timeout = timeout;
  greeting.collective.kind = CollectiveKind::AllToAll;
  greeting.collective.send_bytes = sizes;
  greeting.collective.receive_bytes = sizes;
  greeting.collective.input = out.data();
  greeting.collective.output = in.data();
  greeting.done = [&](const std::string& failure, std::uint32_t) { ended.set_value(failure); };
  engine.submit(std::move(greeting));
  const std::string failure = ended.get_future().get();
  if (failure.empty()) {
    return {};
  }
  return fail("--backend", "ucx", failure, "looking whether all ranks reach each other's network.interface",
              ExitCode::Unavailable);
}

}  // namespace

Result<std::unique_ptr<Engine>> connect(std::uint32_t rank, std::uint32_t world_size, const Exchange& exchange,
                                        std::chrono::milliseconds timeout) {
  const Result<std::shared_ptr<Context>> context = Context::get();
  if (!context) {
    return context.error();
  }
  Result<std::unique_ptr<Worker>> worker = Worker::create(*context, rank, world_size);
  if (!worker) {
    return worker.error();
  }
  if (const Result<void> connected = connect_worker(**worker, rank, exchange); !connected) {
    return connected.error();
  }
  auto engine = std::make_unique<Engine>(std::move(*worker), rank, world_size);
  if (const Result<void> greeted = greet(*engine, world_size, timeout); !greeted) {
    return greeted.error();
  }
  return engine;
}

}  // namespace rollcall::process_group::ucx
