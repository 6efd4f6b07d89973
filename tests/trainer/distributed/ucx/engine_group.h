#pragma once

#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/rank_processes.h"
#include "trainer/distributed/backends/ucx/engine/engine.h"

/// Groups over UCX without LibTorch, so that the sanitizers see all of the project's own code in them.
namespace rollcall::testing_support {

namespace ucx = process_group::ucx;
using process_group::BootstrapAllGather;
using process_group::Operation;

/// Exchanges addresses through files of a folder.
inline BootstrapAllGather exchange_in(const std::filesystem::path& folder, const std::string& group, std::uint32_t rank,
                                      std::uint32_t world_size) {
  return [=](const std::string& mine) -> Result<std::vector<std::string>> {
    const auto path = [&](std::uint32_t other) { return folder / (group + std::to_string(other)); };
    std::ofstream(path(rank).string() + ".new", std::ios::binary) << mine;
    std::filesystem::rename(path(rank).string() + ".new", path(rank));
    std::vector<std::string> all;
    for (std::uint32_t other = 0; other < world_size; ++other) {
      while (!std::filesystem::exists(path(other))) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::stringstream bytes;
      bytes << std::ifstream(path(other), std::ios::binary).rdbuf();
      all.push_back(bytes.str());
    }
    return all;
  };
}

inline std::unique_ptr<ucx::Engine> connect(const RankContext& place, const std::string& group, std::uint32_t rank,
                                            std::uint32_t world_size) {
  auto engine =
      ucx::connect(rank, world_size, exchange_in(place.folder, group, rank, world_size), std::chrono::seconds(60));
  return engine ? std::move(*engine) : throw std::runtime_error(engine.error().message());
}

inline std::unique_ptr<ucx::Engine> connect(const RankContext& place, const std::string& group = "group") {
  return connect(place, group, place.rank, place.world_size);
}

/// Submits `operation`; its failure, empty where it succeeded, comes later.
inline std::future<std::string> submit(process_group::Engine& engine, Operation operation) {
  auto ended = std::make_shared<std::promise<std::string>>();
  std::future<std::string> failure = ended->get_future();
  operation.done = [ended](const std::string& text) { ended->set_value(text); };
  engine.submit(std::move(operation));
  return failure;
}

/// Waits for it, and helps the engine where it lets threads help.
inline std::string help_with(process_group::Engine& engine, std::future<std::string> failure) {
  engine.help_until([&] { return failure.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  return failure.get();
}

/// Adds up `values` of all ranks in place.
inline Operation all_reduce(std::vector<float>& values, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  Operation operation;
  const std::size_t bytes = values.size() * sizeof(float);
  operation.name = "all_reduce of " + std::to_string(bytes) + " bytes";
  operation.timeout = timeout;
  operation.collective.kind = process_group::CollectiveKind::AllReduce;
  operation.collective.bytes = bytes;
  operation.collective.element_bytes = sizeof(float);
  operation.collective.element = process_group::ElementType::Float32;
  operation.collective.output = reinterpret_cast<std::byte*>(values.data());
  return operation;
}

/// Sends `values` of rank 0 to all others.
inline Operation broadcast(std::vector<float>& values) {
  Operation operation = all_reduce(values);
  operation.name = "broadcast";
  operation.collective.kind = process_group::CollectiveKind::Broadcast;
  return operation;
}

/// Sends `bytes` to each of `ranks`, and receives as many from each of them, in `sent` and `received`; none to and from
/// others.
inline Operation all_to_all_among(const std::vector<std::uint32_t>& ranks, std::uint32_t world_size, std::size_t bytes,
                                  const std::vector<std::byte>& sent, std::vector<std::byte>& received) {
  Operation operation;
  operation.name = "all-to-all";
  operation.timeout = std::chrono::seconds(60);
  operation.collective.kind = process_group::CollectiveKind::AllToAll;
  operation.collective.send_bytes.resize(world_size);
  for (const std::uint32_t rank : ranks) {
    operation.collective.send_bytes[rank] = bytes;
  }
  operation.collective.receive_bytes = operation.collective.send_bytes;
  operation.collective.input = sent.data();
  operation.collective.output = received.data();
  return operation;
}

}  // namespace rollcall::testing_support
