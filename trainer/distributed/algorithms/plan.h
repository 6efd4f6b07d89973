#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rollcall::process_group {

/// The memory areas of a collective. The caller of the plan provides Scratch. SharedMemory is this rank's shared
/// memory, which the other ranks map; PeerSharedMemory is that of the step's `peer`, which is only read. Words has the
/// words that ranks send each other to synchronise such steps: this rank's own word, then one of each rank.
enum class Area : std::uint8_t { Input, Output, Scratch, SharedMemory, PeerSharedMemory, Words };

/// The Plan::agreed of the sender.
using Word = std::uint64_t;

/// A byte offset in an area.
struct Location {
  Area area = Area::Output;
  std::size_t offset = 0;

  [[nodiscard]] Location operator+(std::size_t bytes) const { return Location{area, offset + bytes}; }
};

// The beginnings of areas.
inline constexpr Location kInput{Area::Input, 0};
inline constexpr Location kOutput{Area::Output, 0};
inline constexpr Location kData = kOutput;  ///< for collectives that work in place

enum class Action : std::uint8_t {
  Send,     ///< sends `source` to rank `peer`
  Receive,  ///< receives `target` from rank `peer`
  Combine,  ///< sets `target` to target (op) source, element by element
  Copy      ///< copies `source` to `target`
};

/// Index of a step in its plan; kNoStep for none.
using StepIndex = std::int32_t;
constexpr StepIndex kNoStep = -1;

/// The steps that must be done before a step may begin.
using After = std::array<StepIndex, 2>;
constexpr After kAtOnce{kNoStep, kNoStep};

struct Step {
  Action action = Action::Copy;
  std::uint32_t peer = 0;
  std::uint32_t message = 0;  ///< number of the message from the sender to the receiver, from 0
  Location source;
  Location target;
  std::size_t bytes = 0;
  After after = kAtOnce;
};

/// The steps of one rank in one collective. It is pure data: algorithms are independent of the transport, and the plans
/// of all ranks can be checked against each other without one. Sends begin in the order of the plan, and so do receives
/// and local steps (Combine and Copy); only `after` orders these three kinds among each other. The number of pending
/// sends and of pending receives may be limited, to at least one.
struct Plan {
  std::vector<Step> steps;
  std::size_t scratch_bytes = 0;
  std::size_t words = 0;  ///< number of words in the area Words
  /// A value that is the same on all ranks if they call the same collective with the same sizes. All words are equally
  /// long, so the size of a message does not show a difference.
  Word agreed = 0;

  [[nodiscard]] bool uses_shared_memory() const { return words > 0; }
};

/// Builds the plan of one rank. Steps of 0 bytes are left out (kNoStep), on both sides of a message.
class PlanBuilder {
 public:
  explicit PlanBuilder(std::uint32_t world_size) : sent_(world_size), received_(world_size) {}

  StepIndex send(std::uint32_t peer, Location source, std::size_t bytes, After after = kAtOnce);
  StepIndex receive(std::uint32_t peer, Location target, std::size_t bytes, After after = kAtOnce);
  StepIndex combine(Location target, Location source, std::size_t bytes, After after = kAtOnce);
  StepIndex copy(Location target, Location source, std::size_t bytes, After after = kAtOnce);

  // Copy, or combine with `target`, what is at `offset` of the shared memory of `peer`.
  StepIndex copy_from(std::uint32_t peer, Location target, std::size_t offset, std::size_t bytes, After after);
  StepIndex combine_from(std::uint32_t peer, Location target, std::size_t offset, std::size_t bytes, After after);
  // Send a word to `peer`, and receive one from it. Call agree_on() before.
  void send_word(std::uint32_t peer, StepIndex after);
  StepIndex receive_word(std::uint32_t peer);
  void agree_on(Word word);

  /// Adds an empty step that is done once both steps are. Returns one of them if the other is kNoStep.
  StepIndex join(StepIndex one, StepIndex other);

  /// Reserves `bytes` of scratch, aligned for every element type.
  [[nodiscard]] Location scratch(std::size_t bytes);

  [[nodiscard]] Plan take() && { return std::move(plan_); }

 private:
  StepIndex add(const Step& step);
  StepIndex of_peer(StepIndex step, std::uint32_t peer);

  Plan plan_;
  std::vector<std::uint32_t> sent_;      ///< number of messages so far to each peer
  std::vector<std::uint32_t> received_;  ///< number of messages so far from each peer
};

}  // namespace rollcall::process_group
