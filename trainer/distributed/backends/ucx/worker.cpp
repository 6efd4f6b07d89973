#include "trainer/distributed/backends/ucx/worker.h"

namespace rollcall::process_group::ucx {
namespace {

Error unavailable(const std::string& what, ucs_status_t status) {
  return fail("--backend", "ucx", what + ": " + ucs_status_string(status),
              "looking whether /dev/shm is full (`df /dev/shm`), or --backend=gloo", ExitCode::Unavailable);
}

}  // namespace

Worker::Worker(std::shared_ptr<Context> context, std::uint32_t rank, std::uint32_t world_size, const RankNames& names)
    : context_(std::move(context)), rank_(rank), names_(names), peers_(world_size) {
  for (std::uint32_t peer = 0; peer < world_size; ++peer) {
    peers_[peer].worker = this;
    peers_[peer].rank = peer;
  }
}

Result<std::unique_ptr<Worker>> Worker::create(std::shared_ptr<Context> context, std::uint32_t rank,
                                               std::uint32_t world_size, const RankNames& names) {
  std::unique_ptr<Worker> worker(new Worker(std::move(context), rank, world_size, names));
  if (const Result<void> opened = worker->open(); !opened) {
    return opened.error();
  }
  return worker;
}

Result<void> Worker::open() {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const ucs_status_t status = ucp_worker_create(context_->handle(), &parameters, &handle_); status != UCS_OK) {
    return unavailable("UCX cannot make a worker", status);
  }
  if (const ucs_status_t status = ucp_worker_get_efd(handle_, &event_fd_); status != UCS_OK) {
    return unavailable("UCX cannot wait for events", status);
  }
  await_events();
  return {};
}

std::string Worker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  if (ucp_worker_get_address(handle_, &address, &length) != UCS_OK) {
    return {};
  }
  std::string bytes(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(handle_, address);
  return bytes;
}

Result<void> Worker::connect(const std::vector<std::string>& addresses, std::uint32_t generation) {
  tags_ = Tags(generation);
  for (Peer& peer : peers_) {
    if (peer.rank == rank_) {
      continue;
    }
    ucp_ep_params_t parameters{};
    parameters.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    parameters.address = reinterpret_cast<const ucp_address_t*>(addresses.at(peer.rank).data());
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler = {&Worker::on_endpoint_error, &peer};
    if (const ucs_status_t status = ucp_ep_create(handle_, &parameters, &peer.endpoint); status != UCS_OK) {
      return unavailable("no endpoint to " + names_.of(peer.rank), status);
    }
  }
  await_notice();
  return {};
}

void Worker::on_endpoint_error(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  Peer& broken = *static_cast<Peer*>(peer);
  broken.worker->suspect(broken, ucs_status_string(status));
}

void Worker::suspect(Peer& peer, const std::string& reason) {
  if (!peer.left && peer.suspicion.empty()) {
    peer.suspicion = reason;
    peer.suspected = std::chrono::steady_clock::now();
    suspects_ += 1;
  }
}

void Worker::judge_suspects() {
  // Over TCP its goodbye may come by another connection than the one that broke.
  constexpr std::chrono::milliseconds kGrace{10};
  for (Peer& peer : peers_) {
    if (!peer.suspicion.empty() && std::chrono::steady_clock::now() - peer.suspected > kGrace) {
      lose(peer, peer.suspicion);
      peer.suspicion.clear();
      suspects_ -= 1;
    }
  }
}

void Worker::lose(const Peer& peer, const std::string& reason) {
  if (!peer.left) {
    fail_with(Failure{peer.rank, names_.of(peer.rank) + " is gone: " + reason});
  }
}

void Worker::lose_ended(Peer& peer) {
  close(peer.process_fd);  // also ends its part in epoll
  peer.process_fd = -1;
  peer.ended = true;
  constexpr int kRounds = 1000;
  for (int i = 0; i < kRounds && !peer.left; ++i) {
    progress();  // its goodbye may lie there unread
  }
  lose(peer, "its process ended");
}

void Worker::fail_with(Failure failure) {
  if (!failure_) {
    failure_ = std::move(failure);
  }
}

void Worker::fail_with_difference(std::uint32_t peer, const std::string& what) {
  fail_with(Failure{
      peer, names_.of(peer) + " " + what + ": the ranks do not call the same operations with the same sizes", true});
}

void Worker::fail_message(const Message& message, ucs_status_t status) {
  if (peers_[message.peer].left) {
    fail_with(Failure{message.peer, names_.of(message.peer) + " has left the group"});
  }
  suspect(peers_[message.peer], ucs_status_string(status));
}

Request Worker::keep(ucs_status_ptr_t ucp_request, std::uint32_t peer, std::size_t bytes, bool receives) {
  if (ucp_request == nullptr) {
    return nullptr;  // through already
  }
  Message message{ucp_request, peer, bytes, receives, live_.size()};
  if (UCS_PTR_IS_ERR(ucp_request)) {
    fail_message(message, UCS_PTR_STATUS(ucp_request));
    message.ucp_request = nullptr;
  }
  live_.push_back(std::make_unique<Message>(message));
  return live_.back().get();
}

Request Worker::post_send(std::uint32_t peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  const ucp_request_param_t parameters{};
  return keep(ucp_tag_send_nbx(peers_.at(peer).endpoint, data, bytes, tag, &parameters), peer, bytes, false);
}

Request Worker::post_receive(std::uint32_t peer, std::uint64_t tag, std::uint64_t mask, void* data, std::size_t bytes) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // its length is read from the request
  return keep(ucp_tag_recv_nbx(handle_, data, bytes, tag, mask, &parameters), peer, bytes, true);
}

Request Worker::send(std::uint32_t peer, MessageName name, const void* data, std::size_t bytes) {
  return post_send(peer, tags_.collective(rank_, name), data, bytes);
}

Request Worker::receive(std::uint32_t peer, MessageName name, void* data, std::size_t bytes) {
  return post_receive(peer, tags_.collective(peer, name), Tags::kWhole, data, bytes);
}

Request Worker::send_tagged(std::uint32_t peer, std::uint32_t tag, const void* data, std::size_t bytes) {
  return post_send(peer, tags_.point_to_point(rank_, tag), data, bytes);
}

Request Worker::receive_tagged(std::optional<std::uint32_t> peer, std::uint32_t tag, void* data, std::size_t bytes) {
  return post_receive(peer.value_or(rank_), tags_.point_to_point(peer.value_or(0), tag),
                      peer ? Tags::kWhole : Tags::kFromAnybody, data, bytes);
}

RequestState Worker::test(Request request) {
  auto* message = static_cast<Message*>(request);
  if (message->ucp_request == nullptr) {
    release(message);
    return RequestState::Failed;  // it could not be posted; failure() says why
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
    fail_with_difference(done.peer, "sent another number of bytes than this rank expects");
    return RequestState::Failed;
  }
  if (status != UCS_OK) {
    fail_message(done, status);
    return RequestState::Failed;
  }
  return RequestState::Done;
}

void Worker::release(Message* message) {
  if (message->ucp_request != nullptr) {
    ucp_request_free(message->ucp_request);
  }
  const std::size_t place = message->place;
  std::swap(live_[place], live_.back());
  live_[place]->place = place;
  live_.pop_back();
}

bool Worker::progress() {
  const bool moved = ucp_worker_progress(handle_) != 0;
  if (moved && notice_ != nullptr) {
    read_notice();
  }
  if (suspects_ > 0) {
    judge_suspects();
  }
  return moved;
}

}  // namespace rollcall::process_group::ucx
