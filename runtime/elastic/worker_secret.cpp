#include "runtime/elastic/worker_secret.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/contract/secret_memory.h"
#include "runtime/rendezvous/secret.h"

namespace rollcall::elastic {

void keep_from_workers(Environment& environment) {
  const auto descriptor = parse_integer<int>(environment.get(env::kSecretFd).value_or(""));
  if (descriptor && fcntl(*descriptor, F_GET_SEALS) >= 0) {  // otherwise the number belongs to another file by now
    fcntl(*descriptor, F_SETFD, FD_CLOEXEC);
  }
  environment.unset(env::kSecretFd);
  environment.unset(env::kStepSecret);  // used for passing it to the node
}

int worker_secret(const std::string& drawn, const std::string& run, const Environment& environment) {
  const rendezvous::Secret secret = rendezvous::Secret::of(drawn, "workers of " + run);
  const std::string text = fmt::format("{}.{} {:02x}\n", environment.get(env::kSlurmJobId).value_or(""),
                                       environment.get(env::kSlurmStepId).value_or(""), fmt::join(secret.bytes(), ""));
  return secret_memory(text, false);
}

}  // namespace rollcall::elastic
