#pragma once

#include <c10/core/Stream.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/distributed/fsdp/host_link.h"
#include "trainer/distributed/fsdp/parameter_group.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// When each block's parameters are gathered, freed and their gradients reduced, driven by the events of a forward and
/// a backward pass. Every rank runs the same blocks in the same order, so that collectives match.
///
/// Forward: wait for this block's parameters, start gathering the next one's and, while all of these are not larger
/// than the two largest blocks, those of further ones. Backward, in reverse: the same, and once the last gradient of a
/// block is there, free its parameters and start its reduction. Once a backward, or a forward without one to come, has
/// returned, nothing reads or writes the shards any more.
///
/// On a device all this is order of its streams, and the host waits for none of it. An all-gather begins after what the
/// computing stream was given before it, the block that computes last, and so beside the one that computes next; the
/// memory that it fills is that stream's, on which it was free by then. Reductions have a stream of their own, which
/// the computing one waits for at the end of the backward; earlier, only for what has read gradients whose memory is
/// used again (Options::reductions_in_flight).
class Schedule {
 public:
  /// `groups` in the order in which blocks are expected to run; `root`, one of them or null, is unsharded from the
  /// beginning of the forward to its own last gradient. `host_link` and `reductions` are the groups'. All outlive the
  /// schedule.
  Schedule(const Options& options, std::vector<ParameterGroup*> groups, ParameterGroup* root, HostLink* host_link,
           const std::optional<c10::Stream>& reductions);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  ~Schedule();

  void begin_forward();
  void end_forward(const at::Tensor& output);
  void before_block(ParameterGroup& group);
  void after_block(ParameterGroup& group, const at::Tensor& output);

  /// Whether backward passes reduce gradients or only accumulate them.
  void set_reduce(bool reduce) { reduce_ = reduce; }

 private:
  /// A group's place in the current backward pass.
  struct Entry {
    ParameterGroup* group;
    bool in_backward = false;
    std::size_t missing_gradients = 0;
  };
  struct Running {
    ParameterGroup* group;
    GroupGradients::Reduction reduction;
  };

  [[nodiscard]] Entry& entry_of(const ParameterGroup& group);
  [[nodiscard]] std::vector<ParameterGroup*> all_after(const ParameterGroup& group) const;
  [[nodiscard]] std::vector<ParameterGroup*> all_before(const Entry& entry) const;
  void gather_ahead(const ParameterGroup& group, const std::vector<ParameterGroup*>& next) const;
  void await_gradients(Entry& entry);
  void before_backward(Entry& entry);
  void gradient_arrived(Entry& entry);
  void after_backward(Entry& entry);
  void finish_oldest();
  void end_backward();
  void await_reductions();
  void await_copies();

  const Options& options_;
  HostLink* host_link_;
  const std::optional<c10::Stream>& reduction_stream_;
  std::vector<std::unique_ptr<Entry>> entries_;
  ParameterGroup* root_;
  std::int64_t room_bytes_ = 0;              ///< for blocks that are unsharded or on the way: the two largest
  std::vector<ParameterGroup*> order_;       ///< as forwards began, in the last whole pass
  std::vector<ParameterGroup*> this_order_;  ///< in this pass
  std::vector<Entry*> forwarded_;            ///< as forwards ended, whose backward is to come
  std::deque<Running> reductions_;
  bool backward_ends_here_ = false;  ///< end_backward() is queued
  bool reduce_ = true;
};

}  // namespace rollcall::parallel::fsdp
