#include "trainer/distributed/backends/ucx/engine/worker.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "runtime/contract/deadlines.h"

namespace rollcall::process_group::ucx {
namespace {

using std::chrono::milliseconds;

/// The names of epoll's descriptors.
enum Event : std::uint64_t { kUcx, kWake };

Error unavailable(const std::string& what, const std::string& why) {
  return fail("--backend", "ucx", what + ": " + why,
              "checking whether /dev/shm is full (`df /dev/shm`), or --backend=gloo", ErrorKind::Unavailable);
}

}  // namespace

Worker::Worker(std::shared_ptr<Context> context, std::uint32_t rank, std::uint32_t world_size, const RankNames& names,
               std::shared_ptr<ProcessWatch> processes)
    : context_(std::move(context)),
      rank_(rank),
      peers_(world_size, names),
      processes_(processes ? std::move(processes) : std::make_shared<ProcessWatch>()),
      endpoints_(world_size) {
  for (std::uint32_t peer = 0; peer < world_size; ++peer) {
    endpoints_[peer] = {.worker = this, .peer = peer};
  }
}

Result<std::unique_ptr<Worker>> Worker::create(std::shared_ptr<Context> context, std::uint32_t rank,
                                               std::uint32_t world_size, const RankNames& names,
                                               std::shared_ptr<ProcessWatch> processes) {
  std::unique_ptr<Worker> worker;
  try {
    worker.reset(new Worker(std::move(context), rank, world_size, names, std::move(processes)));
  } catch (const std::system_error& error) {  // no descriptors for a ProcessWatch
    return unavailable("UCX cannot wait for events", error.what());
  }
  RETURN_IF_ERROR(worker->open());
  return worker;
}

Result<void> Worker::open() {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const ucs_status_t status = ucp_worker_create(context_->handle(), &parameters, &handle_); status != UCS_OK) {
    return unavailable("UCX cannot make a worker", ucs_status_string(status));
  }
  if (const ucs_status_t status = ucp_worker_get_efd(handle_, &event_fd_); status != UCS_OK) {
    return unavailable("UCX cannot wait for events", ucs_status_string(status));
  }
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  await_events_of(event_fd_, kUcx);
  await_events_of(wake_fd_, kWake);
  processes_->notify(this, [this] {
    some_ended_ = true;
    wake();
  });
  some_ended_ = true;  // others of the step may have ended before
  return {};
}

Worker::~Worker() {
  processes_->notify(this, {});
  if (handle_ != nullptr) {
    shutdown();
    if (notice_ != nullptr) {
      Messages::cancel(handle_, std::exchange(notice_, nullptr));
    }
    close_endpoints();
    messages_.release_all();
    ucp_worker_destroy(handle_);
  }
  for (const int descriptor : {wake_fd_, epoll_fd_}) {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
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
  for (Endpoint& endpoint : endpoints_) {
    if (endpoint.peer == rank_) {
      continue;
    }
    ucp_ep_params_t parameters{};
    parameters.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    parameters.address = reinterpret_cast<const ucp_address_t*>(addresses.at(endpoint.peer).data());
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler = {&Worker::on_endpoint_error, &endpoint};
    if (const ucs_status_t status = ucp_ep_create(handle_, &parameters, &endpoint.handle); status != UCS_OK) {
      return unavailable("no endpoint to " + peers_.names().of(endpoint.peer), ucs_status_string(status));
    }
  }
  await_notice();
  return {};
}

void Worker::on_endpoint_error(void* endpoint, ucp_ep_h /*handle*/, ucs_status_t status) {
  const Endpoint& broken = *static_cast<Endpoint*>(endpoint);
  broken.worker->peers_.suspect(broken.peer, ucs_status_string(status));
}

// Messages.

Request Worker::post_send(std::uint32_t peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  return messages_.send(endpoints_.at(peer).handle, peer, tag, data, bytes);
}

Request Worker::send(std::uint32_t peer, MessageId name, const void* data, std::size_t bytes) {
  return post_send(peer, tags_.collective(rank_, name), data, bytes);
}

Request Worker::receive(std::uint32_t peer, MessageId name, void* data, std::size_t bytes) {
  return messages_.receive(handle_, peer, tags_.collective(peer, name), Tags::kWhole, data, bytes);
}

bool Worker::progress() {
  const bool moved = ucp_worker_progress(handle_) != 0;
  if (moved && notice_ != nullptr) {
    read_notice();
  }
  if (some_ended_) {
    lose_ended();
  }
  if (peers_.has_suspects()) {
    peers_.judge_suspects();
  }
  return moved;
}

// How a worker's thread sleeps, and what wakes it.

void Worker::await_events_of(int descriptor, std::uint64_t name) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = name;
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, descriptor, &event);
}

bool Worker::arm() {
  // The first tries may only reset events that were raised while no thread slept.
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    if (ucp_worker_arm(handle_) == UCS_OK) {
      return true;
    }
  }
  return false;
}

void Worker::sleep(milliseconds longest) {
  // There may also be sends that wait for space in a peer's queue, which raises no event.
  if (arm()) {
    handle(await_event(longest));
  } else {
    sched_yield();
  }
}

Worker::Events Worker::await_event(milliseconds longest) const {
  std::array<epoll_event, 2> events{};
  const int count =
      epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), static_cast<int>(longest.count()));
  Events names;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t name = events[static_cast<std::size_t>(i)].data.u64;  // a copy: epoll_event is packed
    names.push_back(name);
  }
  return names;
}

void Worker::handle(const Events& events) {
  for (const std::uint64_t name : events) {
    if (name == kWake) {
      std::uint64_t times = 0;
      [[maybe_unused]] const ssize_t drained = read(wake_fd_, &times, sizeof times);
    }
  }
}

void Worker::lose_ended() {
  some_ended_ = false;  // before the check, so that a process that ends meanwhile is seen in the next one
  const std::atomic<bool> now = true;
  for (const std::uint32_t number : processes_->await_ended(known_ended_, milliseconds(0), now)) {
    const auto peer = peers_.names().rank_of(number, static_cast<std::uint32_t>(endpoints_.size()));
    if (!peer || endpoints_.at(*peer).handle == nullptr) {
      continue;
    }
    peers_.ended(*peer);
    constexpr int kRounds = 1000;
    for (int i = 0; i < kRounds && !peers_.has_left(*peer); ++i) {
      progress();  // its notice may be unread
    }
    peers_.lose(*peer, "its process ended");
  }
}

void Worker::let_messages_wake(bool wakes) const {
  epoll_event event{};
  event.events = wakes ? EPOLLIN : 0U;
  event.data.u64 = kUcx;
  epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, event_fd_, &event);
}

void Worker::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

// Receives the notices of peers that leave, and sends this rank's own.

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
  notice_ = messages_.receive(handle_, rank_, tags_.notice(0), Tags::kFromAnybody, &incoming_, sizeof incoming_);
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
  const std::uint32_t sender = messages_.last_source();
  peers_.acknowledges(sender);  // a rank that leaves needs no notice of this one
  if (incoming_.kind == Notice::Left) {
    peers_.leaves(sender);
  } else if (incoming_.kind == Notice::Failed) {
    const RankNames& names = peers_.names();
    const std::string culprit = incoming_.rank == rank_ ? "this rank" : names.of(incoming_.rank);
    peers_.fail_with(Failure{incoming_.rank, names.of(sender) + " gave up, because of " + culprit});
  }
  if (incoming_.kind != Notice::Acknowledged && !peers_.is_suspect(sender)) {
    send_notice(sender, answer_);
  }
  await_notice();
}

bool Worker::is_reachable(const Endpoint& endpoint) const {
  return endpoint.handle != nullptr && peers_.is_reachable(endpoint.peer);
}

void Worker::notify_all() {
  const std::optional<Failure>& failure = peers_.failure();
  outgoing_ = Notice{failure ? Notice::Failed : Notice::Left, failure ? failure->rank : 0U};
  for (const Endpoint& endpoint : endpoints_) {
    if (is_reachable(endpoint)) {
      send_notice(endpoint.peer, outgoing_);
    }
  }
  // Closing earlier could lose the notice: a socket that is closed with unread bytes in it is reset.
  progress_until(
      [this] {
        return std::all_of(endpoints_.begin(), endpoints_.end(), [this](const Endpoint& endpoint) {
          return peers_.has_acknowledged(endpoint.peer) || !is_reachable(endpoint);
        });
      },
      failure ? deadline::kFailureClose : deadline::kGracefulClose);
}

void Worker::shutdown() {
  if (!is_shut_down_) {
    is_shut_down_ = true;
    messages_.cancel_receives(handle_, notice_);
    notify_all();
  }
}

void Worker::close_endpoints() {
  const bool failed = peers_.failure().has_value();
  std::vector<void*> closing;
  for (Endpoint& endpoint : endpoints_) {
    if (endpoint.handle == nullptr) {
      continue;
    }
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = failed ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void* request = ucp_ep_close_nbx(endpoint.handle, &parameters);
    if (UCS_PTR_IS_PTR(request)) {
      closing.push_back(request);
    }
    endpoint.handle = nullptr;
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
  progress_until(all_closed, peers_.failure() ? deadline::kFailureClose : deadline::kForcedClose);
}

}  // namespace rollcall::process_group::ucx
