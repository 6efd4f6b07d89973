#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/process_group/algorithms/algorithms.h"
#include "trainer/process_group/algorithms/execution.h"

/// All ranks of a collective in one thread, with messages that take their time: each moves at a moment of its own, its
/// bytes read from the sender and written to the receiver only then, so that a plan which reuses memory too early ends
/// with wrong values, and one that waits for itself is noticed.
namespace rollcall::process_group::testing_support {

/// One rank's memory. Numbers of 32 bits.
struct RankMemory {
  std::vector<std::int32_t> input;
  std::vector<std::int32_t> output;
};

class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(unsigned seed) : random_(seed) {}

  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  ///< sender, receiver, message

  struct Side {
    const void* source = nullptr;
    void* target = nullptr;
    std::size_t bytes = 0;
    bool done = false;
    Key key;
  };

  Request post(const Key& key, Side side) {
    side.key = key;
    sides_.push_back(std::make_unique<Side>(side));
    Pair& pair = open_[key];
    Side*& slot = side.source != nullptr ? pair.sent : pair.received;
    if (slot != nullptr) {
      throw std::runtime_error("two messages of one name");
    }
    slot = sides_.back().get();
    return slot;
  }

  /// Moves one of the messages that both sides have posted; whether there was one.
  bool move_one() {
    std::vector<Key> ready;
    for (const auto& [key, pair] : open_) {
      if (pair.sent != nullptr && pair.received != nullptr) {
        ready.push_back(key);
      }
    }
    if (ready.empty()) {
      return false;
    }
    const Key key = ready[random_() % ready.size()];
    const Pair pair = open_[key];
    if (pair.sent->bytes != pair.received->bytes) {
      throw std::runtime_error("the sides of a message differ in size");
    }
    std::memcpy(pair.received->target, pair.sent->source, pair.sent->bytes);
    pair.sent->done = pair.received->done = true;
    open_.erase(key);
    return true;
  }

  [[nodiscard]] bool anything_left() const { return !open_.empty(); }
  std::mt19937& random() { return random_; }

 private:
  struct Pair {
    Side* sent = nullptr;
    Side* received = nullptr;
  };
  std::mt19937 random_;
  std::map<Key, Pair> open_;
  std::vector<std::unique_ptr<Side>> sides_;
};

/// A rank's way into the network; counts what it sends.
class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(SimulatedNetwork& network, std::uint32_t rank) : network_(network), rank_(rank) {}

  Request send(std::uint32_t peer, MessageName name, const void* data, std::size_t bytes) override {
    sent_bytes += bytes;
    return network_.post({rank_, peer, name.message}, {.source = data, .bytes = bytes, .key = {}});
  }
  Request receive(std::uint32_t peer, MessageName name, void* data, std::size_t bytes) override {
    return network_.post({peer, rank_, name.message}, {.target = data, .bytes = bytes, .key = {}});
  }
  RequestState test(Request request) override {
    return static_cast<SimulatedNetwork::Side*>(request)->done ? RequestState::Done : RequestState::UnderWay;
  }

  std::size_t sent_bytes = 0;

 private:
  SimulatedNetwork& network_;
  std::uint32_t rank_;
};

/// Runs everybody's plan on everybody's memory; the bytes that each rank sent. Throws where the ranks wait for each
/// other for ever, or a message has only one side.
inline std::vector<std::size_t> simulate(const std::vector<Plan>& plans, std::vector<RankMemory>& memory,
                                         std::size_t depth, unsigned seed) {
  SimulatedNetwork network(seed);
  const Combining add{*combine_function(ElementType::Int32, Reduction::Sum), sizeof(std::int32_t)};
  std::vector<std::vector<std::byte>> scratch;
  std::vector<std::unique_ptr<Execution>> running;
  std::vector<SimulatedTransport> transports;
  for (std::uint32_t rank = 0; rank < plans.size(); ++rank) {
    scratch.emplace_back(plans[rank].scratch_bytes, std::byte{0x5a});
    transports.emplace_back(network, rank);
    const Areas areas{.input = reinterpret_cast<const std::byte*>(memory[rank].input.data()),
                      .output = reinterpret_cast<std::byte*>(memory[rank].output.data()),
                      .scratch = scratch.back().data()};
    running.push_back(std::make_unique<Execution>(plans[rank], areas, add, 0, depth));
  }
  std::vector<bool> done(plans.size(), false);
  for (;;) {
    const std::size_t first = network.random()() % plans.size();
    bool all_done = true;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const std::size_t rank = (first + i) % plans.size();
      done[rank] = done[rank] || running[rank]->advance(transports[rank]) == RequestState::Done;
      all_done = all_done && done[rank];
    }
    if (all_done) {
      break;
    }
    if (!network.move_one()) {
      throw std::runtime_error("the ranks wait for each other");
    }
  }
  if (network.anything_left()) {
    throw std::runtime_error("a message was left over");
  }
  std::vector<std::size_t> sent;
  for (const SimulatedTransport& transport : transports) {
    sent.push_back(transport.sent_bytes);
  }
  return sent;
}

}  // namespace rollcall::process_group::testing_support
