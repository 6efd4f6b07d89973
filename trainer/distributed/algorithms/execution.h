#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/distributed/algorithms/elements.h"
#include "trainer/distributed/algorithms/plan.h"

namespace rollcall::process_group {

/// What a message is told by; the same on both sides.
struct MessageName {
  std::uint32_t operation = 0;  ///< number of the collective in its group
  std::uint32_t message = 0;    ///< number of the message in it between these two ranks
};

/// A message under way. Null: it is through already.
using Request = void*;

enum class RequestState : std::uint8_t { UnderWay, Done, Failed };

/// What carries the messages of plans. Messages of equal names between the same two ranks do not exist. Not
/// thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  /// `data` stays as it is until the request is done.
  [[nodiscard]] virtual Request send(std::uint32_t peer, MessageName name, const void* data, std::size_t bytes) = 0;
  /// `data` is complete once the request is done; fewer or more bytes than that are a failure.
  [[nodiscard]] virtual Request receive(std::uint32_t peer, MessageName name, void* data, std::size_t bytes) = 0;
  /// Releases the request unless it is under way.
  [[nodiscard]] virtual RequestState test(Request request) = 0;
};

/// The memory of one operation; none of it is owned. Areas that the plan does not name may be null.
struct Areas {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;                     ///< of plan.scratch_bytes
  std::byte* window = nullptr;                      ///< seen by the other ranks
  std::vector<const std::byte*> peer_windows = {};  ///< theirs, by rank
};

/// Runs one plan over a transport, a bit at a time, so that one thread can serve several. Not thread-safe.
class Execution {
 public:
  /// `plan`'s memory and the transport outlive it. At most `depth` sends and `depth` receives are under way.
  Execution(const Plan& plan, const Areas& areas, const Combining& combining, std::uint32_t operation,
            std::size_t depth);
  Execution(const Execution&) = delete;  // messages under way know its memory
  Execution& operator=(const Execution&) = delete;

  /// Posts the first messages, and no more: cheap. Whether nothing can be done now but to wait for messages.
  [[nodiscard]] bool begin(Transport& transport);
  /// Does all that can be done without waiting. Done, UnderWay, or Failed where a message did; then it is over.
  [[nodiscard]] RequestState advance(Transport& transport);

  /// The ranks from which messages are expected that have not come, ascending; for error messages.
  [[nodiscard]] std::vector<std::uint32_t> awaited_peers() const;
  /// A rank whose word shows that it calls another collective than this one, or with other sizes: why it failed.
  [[nodiscard]] std::optional<std::uint32_t> disagreeing_peer() const { return disagreeing_peer_; }

 private:
  /// One kind of step, in the order of the plan.
  struct Lane {
    std::vector<StepIndex> steps;
    std::size_t next = 0;
  };
  struct UnderWay {
    Request request;
    StepIndex step;
  };

  [[nodiscard]] bool may_begin(StepIndex index) const;
  bool begin_messages(Transport& transport, Lane& lane, std::vector<UnderWay>& under_way);
  [[nodiscard]] bool collect(Transport& transport, std::vector<UnderWay>& under_way);
  [[nodiscard]] bool has_local_work() const;
  [[nodiscard]] bool run_local_step();
  void check_word(const Step& step);
  [[nodiscard]] std::byte* writable(const Place& place);
  [[nodiscard]] const std::byte* readable(const Step& step);

  const Plan& plan_;
  Areas areas_;
  Combining combining_;
  std::uint32_t operation_;
  std::size_t depth_;
  std::vector<bool> done_;
  std::size_t left_;
  Lane sends_, receives_, local_;
  std::vector<UnderWay> sending_, receiving_;
  std::vector<Word> words_;  ///< the area
  std::optional<std::uint32_t> disagreeing_peer_;
  bool failed_ = false;
};

}  // namespace rollcall::process_group
