#include "runtime/elastic/worker_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/rendezvous/secret.h"

namespace rollcall::elastic {
namespace {

constexpr int kHigh = 500;  ///< above what scripts use, below what a usual limit allows

/// Under a number that programs do not take for one of their own.
int moved_up(int descriptor) {
  const int high = fcntl(descriptor, F_DUPFD_CLOEXEC, kHigh);
  if (high >= 0) {
    close(descriptor);
  }
  return high >= 0 ? high : descriptor;
}

}  // namespace

void keep_from_workers(Environment& environment) {
  const auto descriptor = parse_integer<int>(environment.get(env::kSecretFd).value_or(""));
  if (descriptor && fcntl(*descriptor, F_GET_SEALS) >= 0) {  // else the number is another file's by now
    fcntl(*descriptor, F_SETFD, FD_CLOEXEC);
  }
  environment.unset(env::kSecretFd);
  environment.unset(env::kStepSecret);  // on its way to the node
}

int worker_secret(const std::string& drawn, const std::string& run, const Environment& environment) {
  const rendezvous::Secret secret = rendezvous::Secret::of(drawn, "workers of " + run);
  const std::string text = fmt::format("{}.{} {:02x}\n", environment.get(env::kSlurmJobId).value_or(""),
                                       environment.get(env::kSlurmStepId).value_or(""), fmt::join(secret.bytes(), ""));
  const int descriptor = memfd_create("rollcall-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0 || write(descriptor, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    close(descriptor);
    return -1;
  }
  return moved_up(descriptor);
}

}  // namespace rollcall::elastic
