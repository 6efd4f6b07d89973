#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rollcall::process_group {

/// One of the memory areas that a collective works on. Scratch belongs to whoever runs the plan. Window is this rank's
/// memory that the other ranks see, PeerWindow that of the step's `peer`, which is only read. Words are what ranks tell
/// each other between such steps: this rank's own word, then room for one of each rank.
enum class Area : std::uint8_t { Input, Output, Scratch, Window, PeerWindow, Words };

/// Plan::agreed of the rank that sends it.
using Word = std::uint64_t;

/// A byte of an area.
struct Place {
  Area area = Area::Output;
  std::size_t offset = 0;

  [[nodiscard]] Place operator+(std::size_t bytes) const { return Place{area, offset + bytes}; }
};

/// Where an area begins.
inline constexpr Place kInput{Area::Input, 0};
inline constexpr Place kOutput{Area::Output, 0};
inline constexpr Place kData = kOutput;  ///< of a collective that works in place

enum class Action : std::uint8_t {
  Send,     ///< `source` goes to rank `peer`
  Receive,  ///< `target` comes from rank `peer`
  Combine,  ///< `target` becomes target (op) source, element by element
  Copy      ///< `target` becomes source
};

/// Index of a step in its plan; kNoStep where there is none.
using StepIndex = std::int32_t;
constexpr StepIndex kNoStep = -1;

/// A step may begin once these are done.
using After = std::array<StepIndex, 2>;
constexpr After kAtOnce{kNoStep, kNoStep};

struct Step {
  Action action = Action::Copy;
  std::uint32_t peer = 0;
  std::uint32_t message = 0;  ///< which of the messages from the sender to the receiver it is, from 0
  Place source;
  Place target;
  std::size_t bytes = 0;
  After after = kAtOnce;
};

/// What one rank does in one collective: pure data, so that algorithms are told from what carries their messages, and
/// all ranks' plans can be checked against each other without any. Whoever runs it begins the sends in the order of
/// the plan, likewise the receives, likewise the local steps (Combine and Copy); only `after` orders these three among
/// each other. It may limit how many sends and how many receives are under way, to no less than one.
struct Plan {
  std::vector<Step> steps;
  std::size_t scratch_bytes = 0;
  std::size_t words = 0;  ///< how many the area has room for
  /// The same on all ranks where they call the same collective with the same sizes, which the size of no word shows.
  Word agreed = 0;

  [[nodiscard]] bool uses_windows() const { return words > 0; }
};

/// Collects the steps of one rank. Steps of 0 bytes are left out (kNoStep), on both sides of a message alike.
class PlanBuilder {
 public:
  explicit PlanBuilder(std::uint32_t world_size) : sent_(world_size), received_(world_size) {}

  StepIndex send(std::uint32_t peer, Place source, std::size_t bytes, After after = kAtOnce);
  StepIndex receive(std::uint32_t peer, Place target, std::size_t bytes, After after = kAtOnce);
  StepIndex combine(Place target, Place source, std::size_t bytes, After after = kAtOnce);
  StepIndex copy(Place target, Place source, std::size_t bytes, After after = kAtOnce);

  /// `target` becomes what is at `offset` of the window of `peer`, or is combined with it.
  StepIndex copy_from(std::uint32_t peer, Place target, std::size_t offset, std::size_t bytes, After after);
  StepIndex combine_from(std::uint32_t peer, Place target, std::size_t offset, std::size_t bytes, After after);
  /// A word to `peer`, and one from it. Both only after agree_on().
  void tell(std::uint32_t peer, StepIndex after);
  StepIndex hear(std::uint32_t peer);
  void agree_on(Word word);

  /// A step that does nothing and is done once both are; either of them where the other is none.
  StepIndex join(StepIndex one, StepIndex other);

  /// `bytes` of scratch that nothing else uses, aligned for every element type.
  [[nodiscard]] Place scratch(std::size_t bytes);

  [[nodiscard]] Plan take() && { return std::move(plan_); }

 private:
  StepIndex add(const Step& step);
  StepIndex of_peer(StepIndex step, std::uint32_t peer);

  Plan plan_;
  std::vector<std::uint32_t> sent_;      ///< messages so far, by peer
  std::vector<std::uint32_t> received_;  ///< likewise
};

}  // namespace rollcall::process_group
