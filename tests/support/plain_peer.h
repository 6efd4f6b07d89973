#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall {

/// The bytes of one message in clear: its length (4 bytes, big endian), then `text`.
inline std::string encode_frame(std::string_view text) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>((text.size() >> shift) & 0xffU);
  }
  return bytes.append(text);
}

/// Accepts one connection from the listening socket `descriptor`, or fails at the deadline.
inline Result<rendezvous::Socket> accept_one(int descriptor, rendezvous::Clock::time_point deadline) {
  pollfd waiting{descriptor, POLLIN, 0};
  while (poll(&waiting, 1, rendezvous::milliseconds_until(deadline)) != 0) {
    const int accepted = accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted >= 0) {
      return rendezvous::Socket(accepted);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      return fail("peer", "", errno_text(errno), "", ErrorKind::Unavailable);
    }
  }
  return fail("peer", "", "nobody connected in time", "", ErrorKind::Unavailable);
}

}  // namespace rollcall
