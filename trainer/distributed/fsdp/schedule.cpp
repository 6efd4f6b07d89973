#include "trainer/distributed/fsdp/schedule.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <algorithm>
#include <functional>
#include <utility>

#include "trainer/streams.h"

namespace rollcall::parallel::fsdp {
namespace {

class AfterGradient : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit AfterGradient(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const at::Tensor& /*parameter*/) override { call_(); }

 private:
  std::function<void()> call_;
};

/// Returns the bytes of the unsharded parameters of the two largest blocks, without `root`.
std::int64_t two_largest(const std::vector<ParameterGroup*>& groups, const ParameterGroup* root) {
  std::int64_t largest = 0;
  std::int64_t next = 0;
  for (const ParameterGroup* const group : groups) {
    if (group != root) {
      next = std::max(next, std::min(largest, group->unsharded_bytes()));
      largest = std::max(largest, group->unsharded_bytes());
    }
  }
  return largest + next;
}

}  // namespace

Schedule::Schedule(const Options& options, std::vector<ParameterGroup*> groups, ParameterGroup* root,
                   HostLink* host_link, const std::optional<c10::Stream>& reductions)
    : options_(options), host_link_(host_link), reduction_stream_(reductions), root_(root), order_(std::move(groups)) {
  for (ParameterGroup* const group : order_) {
    Entry& entry = *entries_.emplace_back(std::make_unique<Entry>(Entry{.group = group}));
    await_gradients(entry);
  }
  room_bytes_ = two_largest(order_, root_);
}

Schedule::~Schedule() {
  for (const std::unique_ptr<Entry>& entry : entries_) {
    for (std::size_t i = 0; i < entry->group->trainable(); ++i) {
      torch::autograd::impl::set_post_acc_grad_hooks(entry->group->unsharded(i), nullptr);
    }
  }
}

void Schedule::await_gradients(Entry& entry) {
  for (std::size_t i = 0; i < entry.group->trainable(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        entry.group->unsharded(i), std::make_unique<AfterGradient>([this, &entry] { gradient_arrived(entry); }));
  }
}

Schedule::Entry& Schedule::entry_of(const ParameterGroup& group) {
  return **std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry->group == &group; });
}

std::vector<ParameterGroup*> Schedule::all_after(const ParameterGroup& group) const {
  const auto found = std::find(order_.begin(), order_.end(), &group);
  return found == order_.end() ? std::vector<ParameterGroup*>() : std::vector(found + 1, order_.end());
}

/// Returns the groups before `entry` in the forward, whose backward comes after its own.
std::vector<ParameterGroup*> Schedule::all_before(const Entry& entry) const {
  std::vector<ParameterGroup*> before;
  for (auto here = std::find(forwarded_.rbegin(), forwarded_.rend(), &entry); here != forwarded_.rend(); ++here) {
    if (*here != &entry) {
      before.push_back((*here)->group);
    }
  }
  return before;
}

/// Gathers the next block in any case. So a large block after small ones is gathered before the last of them computes.
void Schedule::gather_ahead(const ParameterGroup& group, const std::vector<ParameterGroup*>& next) const {
  if (!options_.prefetch) {
    return;
  }
  std::int64_t room = room_bytes_ - (&group == root_ ? 0 : group.unsharded_bytes());
  for (ParameterGroup* const one : next) {
    room -= one->gathering_bytes();
    if (one != next.front() && room < 0) {
      return;
    }
    one->start_gather();
  }
}

void Schedule::begin_forward() {
  // Left over from a pass without backward: its parameters may be out of date.
  forwarded_.clear();
  for (const std::unique_ptr<Entry>& entry : entries_) {
    entry->in_backward = false;
    entry->group->forget();
  }
  this_order_.clear();
  if (root_ != nullptr) {
    before_block(*root_);
  }
}

void Schedule::before_block(ParameterGroup& group) {
  this_order_.push_back(&group);
  const bool keep_small =
      options_.after_forward == AfterForward::SmallShard && &group != root_ && at::GradMode::is_enabled();
  group.unshard(keep_small);
  gather_ahead(group, all_after(group));
}

void Schedule::after_block(ParameterGroup& group, const at::Tensor& output) {
  const bool training = at::GradMode::is_enabled() && output.requires_grad();
  if (training) {
    Entry& entry = entry_of(group);
    forwarded_.push_back(&entry);
    output.register_hook([this, &entry](const at::Tensor&) { before_backward(entry); });
  }
  // The last block's backward comes next.
  const bool keep = &group == root_ || options_.after_forward == AfterForward::Keep || all_after(group).empty();
  if (!training || !keep) {
    group.reshard();
  }
}

void Schedule::end_forward(const at::Tensor& output) {
  if (root_ != nullptr) {
    after_block(*root_, output);
  }
  order_ = this_order_;
  if (!at::GradMode::is_enabled()) {
    await_copies();
  }
}

void Schedule::before_backward(Entry& entry) {
  if (!backward_ends_here_) {
    backward_ends_here_ = true;
    torch::autograd::Engine::get_default_engine().queue_callback([this] { end_backward(); });
  }
  if (entry.in_backward) {  // a block that ran twice
    return;
  }
  entry.in_backward = true;
  entry.missing_gradients = entry.group->trainable();
  entry.group->unshard();
  gather_ahead(*entry.group, all_before(entry));
}

void Schedule::gradient_arrived(Entry& entry) {
  if (!entry.in_backward) {
    return;
  }
  entry.missing_gradients -= 1;
  if (entry.missing_gradients == 0) {
    after_backward(entry);
  }
}

void Schedule::after_backward(Entry& entry) {
  entry.in_backward = false;
  if (!reduce_) {
    entry.group->gradients().accumulate();
    entry.group->reshard();
    return;
  }
  while (reductions_.size() >= std::max<std::size_t>(1, options_.reductions_in_flight)) {
    finish_oldest();
  }
  Running running{entry.group, entry.group->gradients().start()};
  entry.group->reshard();
  reductions_.push_back(std::move(running));
}

void Schedule::finish_oldest() {
  Running running = std::move(reductions_.front());
  reductions_.pop_front();
  running.group->gradients().finish(running.reduction);
}

void Schedule::end_backward() {
  backward_ends_here_ = false;
  for (Entry* const entry : forwarded_) {
    if (entry->in_backward && entry->group->trainable() > 0) {  // the loss does not depend on all of its parameters
      after_backward(*entry);
    }
  }
  await_reductions();
  forwarded_.clear();
  for (const std::unique_ptr<Entry>& entry : entries_) {
    entry->in_backward = false;
    entry->group->forget();
  }
  await_copies();
}

void Schedule::await_reductions() {
  const bool has_reduced = !reductions_.empty();  // else gradients were only added up
  while (!reductions_.empty()) {
    finish_oldest();
  }
  if (has_reduced && reduction_stream_) {
    order_after(current_stream(reduction_stream_->device()), *reduction_stream_);
  }
}

void Schedule::await_copies() {
  if (host_link_ != nullptr) {
    host_link_->wait();
  }
}

}  // namespace rollcall::parallel::fsdp
