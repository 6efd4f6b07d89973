#include "spank_plugin/task.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "runtime/contract/env_vars.h"
#include "runtime/contract/secret_memory.h"

namespace rollcall::spank {
namespace {

constexpr std::size_t kBytes = 16;

}  // namespace

Failure draw_secret() {
  static bool drawn = false;
  if (drawn) {
    return {};  // each component of a het step calls this function
  }
  unsigned char bytes[kBytes];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    return failed(ExitCode::Unavailable,
                  "rollcall: --ddp: getrandom(2) failed for the step's secret: %s; try asking your administrator",
                  std::strerror(errno));
  }
  char digits[2 * kBytes + 1] = "";
  for (std::size_t i = 0; i < kBytes; ++i) {
    digits[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
    digits[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
  }
  drawn = ::setenv(env::kStepSecret.data(), digits, 1) == 0;
  return drawn ? Failure()
               : failed(ExitCode::Unavailable, "rollcall: --ddp: out of memory; try asking Slurm for more (--mem)");
}

void StepSecret::take(spank_t spank) {
  if (get_variable(spank, env::kStepSecret.data(), digits_)) {
    spank_unsetenv(spank, env::kStepSecret.data());
  }
}

Failure StepSecret::hand_over(spank_t spank) const {
  Buffer job;
  Buffer step;
  // A step of several components belongs to the first component's job.
  if (digits_.text().size() != 2 * kBytes || !get_variable(spank, env::kSlurmJobId.data(), job) ||
      !get_variable(spank, env::kSlurmStepId.data(), step)) {
    return {};  // srun's plugin does not draw a secret, so that no node has one
  }
  Buffer text;
  for (const std::string_view part :
       {job.text(), std::string_view("."), step.text(), std::string_view(" "), digits_.text()}) {
    text.append(part);
  }
  const int file = secret_memory(text.text(), true);
  if (file < 0) {
    const bool too_few = errno == EMFILE || errno == EINVAL;  // F_DUPFD returns EINVAL for a number above the limit
    return failed(ExitCode::Unavailable,
                  too_few ? "rollcall: --ddp: this node cannot pass on the step's secret: %s; try raising ulimit -n"
                          : "rollcall: --ddp: this node cannot pass on the step's secret: %s; try using a node whose "
                            "kernel and sandbox allow memfd_create(2)",
                  std::strerror(errno));
  }
  Buffer number;
  number.append(static_cast<std::uint32_t>(file));
  spank_setenv(spank, env::kSecretFd.data(), number.c_str(), 1);
  return {};
}

}  // namespace rollcall::spank
