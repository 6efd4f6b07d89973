// How a worker hears that peers leave, and how it leaves itself.
#include <unistd.h>
#include <algorithm>
#include <utility>

#include "trainer/distributed/backends/ucx/worker.h"

namespace rollcall::process_group::ucx {
namespace {

using std::chrono::milliseconds;

}  // namespace

template <typename Condition>
void Worker::progress_until(const Condition& done, milliseconds longest) {
  const auto deadline = std::chrono::steady_clock::now() + longest;
  while (!done() && std::chrono::steady_clock::now() < deadline) {
    if (!progress()) {
      sleep(milliseconds(1));
    }
  }
}

void Worker::await_notice() {
  notice_ = post_receive(rank_, tags_.notice(0), Tags::kFromAnybody, &incoming_, sizeof incoming_);
}

void Worker::send_notice(std::uint32_t peer, const Notice& notice) {
  std::erase_if(notices_sent_, [this](Request request) { return test(request) != RequestState::UnderWay; });
  if (const Request request = post_send(peer, tags_.notice(rank_), &notice, sizeof notice); request != nullptr) {
    notices_sent_.push_back(request);
  }
}

void Worker::read_notice() {
  const RequestState state = test(notice_);
  if (state == RequestState::UnderWay) {
    return;
  }
  notice_ = nullptr;
  if (state == RequestState::Failed) {
    return;
  }
  Peer& sender = peers_.at(last_source_);
  sender.heard = true;  // who leaves itself need not be told
  if (incoming_.kind == Notice::Left) {
    sender.left = true;
  } else if (incoming_.kind == Notice::Failed) {
    const std::string culprit = incoming_.rank == rank_ ? "this rank" : names_.of(incoming_.rank);
    fail_with(Failure{incoming_.rank, names_.of(sender.rank) + " gave up, because of " + culprit});
  }
  if (incoming_.kind != Notice::Heard && sender.suspicion.empty()) {
    send_notice(sender.rank, answer_);
  }
  await_notice();
}

bool Worker::is_reachable(const Peer& peer) const {
  return peer.endpoint != nullptr && !peer.left && !peer.ended && peer.suspicion.empty() &&
         !(failure_ && failure_->rank == peer.rank && !failure_->answers);
}

void Worker::tell_all() {
  outgoing_ = Notice{failure_ ? Notice::Failed : Notice::Left, failure_ ? failure_->rank : 0U};
  for (const Peer& peer : peers_) {
    if (is_reachable(peer)) {
      send_notice(peer.rank, outgoing_);
    }
  }
  // Closing before they have read it could take it from them: a socket that is closed with unread bytes in it is reset.
  progress_until(
      [this] {
        return std::all_of(peers_.begin(), peers_.end(),
                           [this](const Peer& peer) { return peer.heard || !is_reachable(peer); });
      },
      milliseconds(failure_ ? 100 : 300));
}

void Worker::cancel_receives() {
  for (const std::unique_ptr<Message>& message : live_) {
    if (message->receives && message->ucp_request != nullptr && message.get() != notice_) {
      ucp_request_cancel(handle_, message->ucp_request);
    }
  }
}

void Worker::give_up() {
  if (!gave_up_) {
    gave_up_ = true;
    cancel_receives();
    tell_all();
  }
}

Worker::~Worker() {
  if (handle_ != nullptr) {
    give_up();
    if (notice_ != nullptr) {
      ucp_request_cancel(handle_, static_cast<Message*>(std::exchange(notice_, nullptr))->ucp_request);
    }
    close_endpoints();
    while (!live_.empty()) {
      release(live_.back().get());
    }
    ucp_worker_destroy(handle_);
  }
  for (const Peer& peer : peers_) {
    if (peer.process_fd >= 0) {
      close(peer.process_fd);
    }
  }
  for (const int descriptor : {wake_fd_, epoll_fd_}) {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
}

void Worker::close_endpoints() {
  std::vector<void*> closing;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) {
      continue;
    }
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = failure_ ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void* request = ucp_ep_close_nbx(peer.endpoint, &parameters);
    if (UCS_PTR_IS_PTR(request)) {
      closing.push_back(request);
    }
    peer.endpoint = nullptr;
  }
  const auto all_closed = [&] {
    std::erase_if(closing, [](void* request) {
      const bool closed = ucp_request_check_status(request) != UCS_INPROGRESS;
      if (closed) {
        ucp_request_free(request);
      }
      return closed;
    });
    return closing.empty();
  };
  progress_until(all_closed, milliseconds(failure_ ? 100 : 2000));
}

}  // namespace rollcall::process_group::ucx
