#include "trainer/distributed/backends/ucx/engine/messages.h"

#include <utility>

#include "runtime/contract/deadlines.h"

namespace rollcall::process_group::ucx {

void Peers::fail_with(Failure failure) {
  if (!failure_) {
    failure_ = std::move(failure);
  }
}

void Peers::fail_with_difference(std::uint32_t peer, const std::string& what) {
  fail_with(Failure{
      peer, names_.of(peer) + " " + what + ": the ranks do not call the same operations with the same sizes", true});
}

void Peers::fail_message(std::uint32_t peer, const std::string& reason) {
  if (has_left(peer)) {
    fail_with(Failure{peer, names_.of(peer) + " has left the group"});
  }
  suspect(peer, reason);
}

void Peers::lose(std::uint32_t peer, const std::string& reason) {
  if (!has_left(peer)) {
    fail_with(Failure{peer, names_.of(peer) + " is gone: " + reason});
  }
}

void Peers::suspect(std::uint32_t peer, const std::string& reason) {
  Peer& suspected = peers_.at(peer);
  if (!suspected.left && suspected.suspicion.empty()) {
    suspected.suspicion = reason;
    suspected.suspected = std::chrono::steady_clock::now();
    suspects_ += 1;
  }
}

void Peers::judge_suspects() {
  for (std::uint32_t rank = 0; rank < peers_.size() && suspects_ > 0; ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.suspicion.empty() && std::chrono::steady_clock::now() - peer.suspected > deadline::kBrokenEndpointGrace) {
      lose(rank, peer.suspicion);
      peer.suspicion.clear();
      suspects_ -= 1;
    }
  }
}

bool Peers::is_reachable(std::uint32_t peer) const {
  const Peer& asked = peers_.at(peer);
  return !asked.left && !asked.ended && asked.suspicion.empty() &&
         !(failure_ && failure_->rank == peer && !failure_->answers);
}

Request Messages::keep(ucs_status_ptr_t ucp_request, std::uint32_t peer, std::size_t bytes, bool receives) {
  if (ucp_request == nullptr) {
    return nullptr;  // through already
  }
  Message message{ucp_request, peer, bytes, receives, live_.size()};
  if (UCS_PTR_IS_ERR(ucp_request)) {
    peers_.fail_message(peer, ucs_status_string(UCS_PTR_STATUS(ucp_request)));
    message.ucp_request = nullptr;
  }
  live_.push_back(std::make_unique<Message>(message));
  return live_.back().get();
}

Request Messages::send(ucp_ep_h endpoint, std::uint32_t peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  const ucp_request_param_t parameters{};
  return keep(ucp_tag_send_nbx(endpoint, data, bytes, tag, &parameters), peer, bytes, false);
}

Request Messages::receive(ucp_worker_h worker, std::uint32_t peer, std::uint64_t tag, std::uint64_t mask, void* data,
                          std::size_t bytes) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // its length is read from the request
  return keep(ucp_tag_recv_nbx(worker, data, bytes, tag, mask, &parameters), peer, bytes, true);
}

RequestState Messages::test(Request request) {
  auto* message = static_cast<Message*>(request);
  if (message->ucp_request == nullptr) {
    release(message);
    return RequestState::Failed;  // it could not be posted; Peers::failure() says why
  }
  ucp_tag_recv_info_t info{};
  const ucs_status_t status = message->receives ? ucp_tag_recv_request_test(message->ucp_request, &info)
                                                : ucp_request_check_status(message->ucp_request);
  if (status == UCS_INPROGRESS) {
    return RequestState::UnderWay;
  }
  last_source_ = Tags::source_of(info.sender_tag);
  const Message done = *message;
  release(message);
  if (status == UCS_ERR_MESSAGE_TRUNCATED || (status == UCS_OK && done.receives && info.length != done.bytes)) {
    peers_.fail_with_difference(done.peer, "sent another number of bytes than this rank expects");
    return RequestState::Failed;
  }
  if (status != UCS_OK) {
    peers_.fail_message(done.peer, ucs_status_string(status));
    return RequestState::Failed;
  }
  return RequestState::Done;
}

void Messages::release(Message* message) {
  if (message->ucp_request != nullptr) {
    ucp_request_free(message->ucp_request);
  }
  const std::size_t index = message->index;
  std::swap(live_[index], live_.back());
  live_[index]->index = index;
  live_.pop_back();
}

void Messages::cancel(ucp_worker_h worker, Request request) {
  ucp_request_cancel(worker, static_cast<Message*>(request)->ucp_request);
}

void Messages::cancel_receives(ucp_worker_h worker, Request but) {
  for (const std::unique_ptr<Message>& message : live_) {
    if (message->receives && message->ucp_request != nullptr && message.get() != but) {
      ucp_request_cancel(worker, message->ucp_request);
    }
  }
}

void Messages::release_all() {
  while (!live_.empty()) {
    release(live_.back().get());
  }
}

}  // namespace rollcall::process_group::ucx
