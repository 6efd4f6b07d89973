#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/distributed/algorithms/elements.h"
#include "trainer/distributed/algorithms/plan.h"

namespace rollcall::process_group {

/// Identifies a message; the same on both sides.
struct MessageId {
  std::uint32_t operation = 0;  ///< number of the collective in its group
  std::uint32_t message = 0;    ///< number of the message between these two ranks in the collective
};

/// A pending message; null if it is complete already.
using Request = void*;

enum class RequestState : std::uint8_t { UnderWay, Done, Failed };

/// Sends and receives the messages of plans. No two messages between the same two ranks have the same name. Not
/// thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Starts to send `data`, which must not change until the request is done.
  [[nodiscard]] virtual Request send(std::uint32_t peer, MessageId name, const void* data, std::size_t bytes) = 0;
  /// Starts to receive `data`, which is complete once the request is done. A message of another size is a failure.
  [[nodiscard]] virtual Request receive(std::uint32_t peer, MessageId name, void* data, std::size_t bytes) = 0;
  /// Returns the state of the request, and releases it unless it is pending.
  [[nodiscard]] virtual RequestState test(Request request) = 0;
};

/// The memory of one operation, which it does not own. Areas that the plan does not use may be null.
struct Areas {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;                           ///< plan.scratch_bytes long
  std::byte* shared_memory = nullptr;                     ///< this rank's shared memory, which the other ranks map
  std::vector<const std::byte*> peer_shared_memory = {};  ///< the other ranks' shared memory, by rank
};

/// Runs one plan over a transport in small pieces, so that one thread can serve several. Not thread-safe.
class Execution {
 public:
  /// `plan`, the areas' memory and the transport outlive the execution. At most `depth` sends and `depth` receives are
  /// pending at a time.
  Execution(const Plan& plan, const Areas& areas, const Combining& combining, std::uint32_t operation,
            std::size_t depth);
  Execution(const Execution&) = delete;  // pending messages refer to its memory
  Execution& operator=(const Execution&) = delete;

  /// Posts only the first messages, which is cheap. Returns whether nothing can be done now but wait for messages.
  [[nodiscard]] bool begin(Transport& transport);
  /// Does all that can be done without waiting. Returns Failed, and does nothing more, after a message failed.
  [[nodiscard]] RequestState advance(Transport& transport);

  /// Returns the ranks from which messages are still missing, ascending; for error messages.
  [[nodiscard]] std::vector<std::uint32_t> awaited_peers() const;
  /// Returns the rank whose word shows that it calls another collective, or with other sizes; unset unless that is why
  /// the execution failed.
  [[nodiscard]] std::optional<std::uint32_t> disagreeing_peer() const { return disagreeing_peer_; }

 private:
  /// The steps of one kind, in the order of the plan.
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
  [[nodiscard]] std::byte* writable(const Location& place);
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
  std::vector<Word> words_;  ///< the area Words
  std::optional<std::uint32_t> disagreeing_peer_;
  bool failed_ = false;
};

}  // namespace rollcall::process_group
