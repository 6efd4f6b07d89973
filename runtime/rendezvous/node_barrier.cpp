#include "runtime/rendezvous/node_barrier.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "runtime/job/marker.h"

namespace rollcall::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kLeader = 0;
/// The leader may join later than another rank arrives, so a rank that is not released sends its message again.
constexpr std::chrono::milliseconds kAgain{5};

struct Address {
  sockaddr_un place{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&place); }
};

/// Returns an address that contains the user, so that equal names of two users differ.
Address address_of(const std::string& name, std::uint32_t local_rank) {
  const std::string text = fmt::format("rollcall-{}-{:08x}-{}", getuid(), job::fnv1a(name), local_rank);
  Address address;
  address.place.sun_family = AF_UNIX;
  std::memcpy(address.place.sun_path + 1, text.data(), text.size());  // a leading 0 selects the abstract namespace
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

void send_to(int descriptor, const Address& whom, std::uint32_t local_rank) {
  // Without a receiver, or with a full queue, the message is sent again or the deadline passes.
  (void)sendto(descriptor, &local_rank, sizeof local_rank, MSG_DONTWAIT | MSG_NOSIGNAL, whom.get(), whom.length);
}

/// Checks the credentials that the kernel adds (SO_PASSCRED, unix(7)).
bool sender_is_this_user(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      return sender.uid == getuid();
    }
  }
  return false;
}

/// Receives a message of this user; returns the sender's local rank, or nothing within `limit`.
std::optional<std::uint32_t> receive(int descriptor, Clock::duration limit) {
  pollfd wanted{descriptor, POLLIN, 0};
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(limit);
  if (poll(&wanted, 1, static_cast<int>(std::max<std::int64_t>(0, whole.count()))) <= 0) {
    return std::nullopt;
  }
  std::uint32_t local_rank = 0;
  iovec place{&local_rank, sizeof local_rank};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(ucred))> beside{};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = beside.size();
  const ssize_t got = recvmsg(descriptor, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  return got == sizeof local_rank && sender_is_this_user(message) ? std::optional(local_rank) : std::nullopt;
}

}  // namespace

NodeBarrier::NodeBarrier(int descriptor, std::string name, std::uint32_t local_rank, std::uint32_t local_world_size)
    : descriptor_(descriptor), name_(std::move(name)), local_rank_(local_rank), local_world_size_(local_world_size) {}

NodeBarrier::NodeBarrier(NodeBarrier&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::move(other.name_)),
      local_rank_(other.local_rank_),
      local_world_size_(other.local_world_size_) {}

NodeBarrier::~NodeBarrier() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

Result<NodeBarrier> NodeBarrier::join(const std::string& name, std::uint32_t local_rank,
                                      std::uint32_t local_world_size) {
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const Address own = address_of(name, local_rank);
  const int on = 1;
  if (descriptor >= 0 && setsockopt(descriptor, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
      bind(descriptor, own.get(), own.length) == 0) {
    return NodeBarrier(descriptor, name, local_rank, local_world_size);
  }
  const int code = errno;
  if (descriptor >= 0) {
    close(descriptor);
  }
  return fail("node barrier", std::to_string(local_rank), errno_text(code), "checking for another run of this name",
              ErrorKind::Unavailable);
}

bool NodeBarrier::wait(std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  return local_rank_ == kLeader ? wait_for_all(deadline) : wait_for_release(deadline);
}

bool NodeBarrier::wait_for_all(Clock::time_point deadline) const {
  std::set<std::uint32_t> missing;
  for (std::uint32_t rank = kLeader + 1; rank < local_world_size_; ++rank) {
    missing.insert(rank);
  }
  while (!missing.empty() && Clock::now() < deadline) {
    if (const auto arrived = receive(descriptor_, deadline - Clock::now())) {
      missing.erase(*arrived);
    }
  }
  for (std::uint32_t rank = kLeader + 1; missing.empty() && rank < local_world_size_; ++rank) {
    send_to(descriptor_, address_of(name_, rank), kLeader);
  }
  return missing.empty();
}

bool NodeBarrier::wait_for_release(Clock::time_point deadline) const {
  const Address leader = address_of(name_, kLeader);
  while (Clock::now() < deadline) {
    send_to(descriptor_, leader, local_rank_);
    if (receive(descriptor_, std::min<Clock::duration>(kAgain, deadline - Clock::now())) == kLeader) {
      return true;
    }
  }
  return false;
}

}  // namespace rollcall::rendezvous
