#include "runtime/elastic/unblocked_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace rollcall::elastic {
namespace {

/// Pause between attempts where there is some room, but not enough.
constexpr int kPauseMilliseconds = 10;

/// Opens a separate description; not of a file, which would get a second position and never blocks forever.
int open_unblocked(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode))) {
    return -1;
  }
  const int packets = fcntl(descriptor, F_GETFL) & O_DIRECT;  // packet mode of a pipe
  return open(fmt::format("/proc/self/fd/{}", descriptor).c_str(),
              O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC | packets);
}

}  // namespace

bool takes_more(int descriptor, std::chrono::milliseconds patience) {
  pollfd writable{descriptor, POLLOUT, 0};
  return poll(&writable, 1, static_cast<int>(patience.count())) != 0;
}

UnblockedOutput::UnblockedOutput(int descriptor) : descriptor_(descriptor), own_(open_unblocked(descriptor)) {}

UnblockedOutput::~UnblockedOutput() {
  if (own_ >= 0) {
    close(own_);
  }
}

std::string_view UnblockedOutput::write(std::string_view text, std::chrono::milliseconds patience) const {
  const int target = own_ >= 0 ? own_ : descriptor_;
  auto taken = std::chrono::steady_clock::now();
  while (!text.empty()) {
    if (!takes_more(target, patience)) {
      return text;
    }
    const ssize_t count = ::write(target, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (count > 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
      taken = std::chrono::steady_clock::now();
    } else if (count < 0 && errno != EAGAIN && errno != EINTR) {
      return {};
    } else if (std::chrono::steady_clock::now() - taken >= patience) {
      return text;
    } else {
      poll(nullptr, 0, kPauseMilliseconds);
    }
  }
  return {};
}

}  // namespace rollcall::elastic
