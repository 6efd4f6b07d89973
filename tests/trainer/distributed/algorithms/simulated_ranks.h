#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/distributed/algorithms/algorithms.h"
#include "trainer/distributed/algorithms/execution.h"

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

  /// Operation, sender, receiver, message.
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

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

  Request send(std::uint32_t peer, MessageId name, const void* data, std::size_t bytes) override {
    sent_bytes += bytes;
    return network_.post({name.operation, rank_, peer, name.message}, {.source = data, .bytes = bytes, .key = {}});
  }
  Request receive(std::uint32_t peer, MessageId name, void* data, std::size_t bytes) override {
    const Request request =
        network_.post({name.operation, peer, rank_, name.message}, {.target = data, .bytes = bytes, .key = {}});
    if (arrives_at_once) {
      network_.move_one();
    }
    return request;
  }
  RequestState test(Request request) override {
    return static_cast<SimulatedNetwork::Side*>(request)->done ? RequestState::Done : RequestState::UnderWay;
  }

  std::size_t sent_bytes = 0;
  bool arrives_at_once = false;  ///< what was sent before it is received

 private:
  SimulatedNetwork& network_;
  std::uint32_t rank_;
};

/// A collective of all ranks: the plan and memory of each.
struct Work {
  std::vector<Plan> plans;
  std::vector<RankMemory>* memory;
};

/// One rank, which carries out its part of one collective after the other.
class SimulatedRank {
 public:
  SimulatedRank(SimulatedNetwork& network, std::uint32_t rank, std::size_t depth)
      : rank_(rank), depth_(depth), transport_(network, rank) {
    for (auto& window : windows_) {
      window.resize(kWindowBytes, std::byte{0x5a});
    }
  }

  /// Does what it can without waiting; whether all of `works` is done. Two windows are used by turns.
  bool advance(const std::vector<Work>& works, const std::vector<std::unique_ptr<SimulatedRank>>& ranks) {
    for (; next_ < works.size(); ++next_) {
      if (!execution_) {
        begin(works[next_], ranks);
      }
      if (execution_->advance(transport_) != RequestState::Done) {
        return false;
      }
      execution_.reset();
    }
    return true;
  }

  [[nodiscard]] std::size_t sent_bytes() const { return transport_.sent_bytes; }

  static constexpr std::size_t kWindowBytes = 2048;

 private:
  void begin(const Work& work, const std::vector<std::unique_ptr<SimulatedRank>>& ranks) {
    const Plan& plan = work.plans[rank_];
    const Combining add{combine_function(ElementType::Int32, Reduction::Sum), sizeof(std::int32_t)};
    scratch_.emplace_back(plan.scratch_bytes, std::byte{0x5a});
    RankMemory& memory = (*work.memory)[rank_];
    Areas areas{.input = reinterpret_cast<const std::byte*>(memory.input.data()),
                .output = reinterpret_cast<std::byte*>(memory.output.data()),
                .scratch = scratch_.back().data(),
                .shared_memory = windows_[next_ % 2].data(),
                .peer_shared_memory = {}};
    for (const auto& other : ranks) {
      areas.peer_shared_memory.push_back(other->windows_[next_ % 2].data());
    }
    execution_.emplace(plan, areas, add, static_cast<std::uint32_t>(next_), depth_);
  }

  std::uint32_t rank_;
  std::size_t depth_;
  SimulatedTransport transport_;
  std::array<std::vector<std::byte>, 2> windows_;
  std::vector<std::vector<std::byte>> scratch_;
  std::optional<Execution> execution_;
  std::size_t next_ = 0;
};

/// Runs one collective after the other, in each of which a rank may be late; the bytes that each rank sent. Throws
/// where the ranks wait for each other for ever, or a message has only one side.
inline std::vector<std::size_t> simulate(const std::vector<Work>& works, std::size_t depth, unsigned seed) {
  SimulatedNetwork network(seed);
  std::vector<std::unique_ptr<SimulatedRank>> ranks;
  for (std::uint32_t rank = 0; rank < works.front().plans.size(); ++rank) {
    ranks.push_back(std::make_unique<SimulatedRank>(network, rank, depth));
  }
  for (bool all_done = false, waits = false; !all_done;) {
    const std::size_t first = network.random()() % ranks.size();
    all_done = true;
    bool all_advanced = true;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const bool advances = waits || network.random()() % 2 == 0;
      all_advanced = all_advanced && advances;
      all_done = advances && ranks[(first + i) % ranks.size()]->advance(works, ranks) && all_done;
    }
    waits = !network.move_one();
    if (!all_done && all_advanced && waits) {
      throw std::runtime_error("the ranks wait for each other");
    }
  }
  if (network.anything_left()) {
    throw std::runtime_error("a message was left over");
  }
  std::vector<std::size_t> sent;
  std::transform(ranks.begin(), ranks.end(), std::back_inserter(sent),
                 [](const auto& one) { return one->sent_bytes(); });
  return sent;
}

/// The same of one collective.
inline std::vector<std::size_t> simulate(const std::vector<Plan>& plans, std::vector<RankMemory>& memory,
                                         std::size_t depth, unsigned seed) {
  return simulate({Work{plans, &memory}}, depth, seed);
}

}  // namespace rollcall::process_group::testing_support
