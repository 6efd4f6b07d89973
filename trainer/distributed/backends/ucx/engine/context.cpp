#include "trainer/distributed/backends/ucx/engine/context.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

namespace rollcall::process_group::ucx {
namespace {

struct Default {
  const char* variable;
  const char* value;
};

constexpr const char* kSharedMemoryErrors = "UCX_MM_ERROR_HANDLING";
constexpr Default kDefaults[] = {
    {kSharedMemoryErrors, "y"},
    {"UCX_KEEPALIVE_INTERVAL", "50ms"},
    {"UCX_TCP_TX_SEG_SIZE", "512k"},
    {"UCX_TCP_RX_SEG_SIZE", "512k"},
};

/// Returns whether the user's choice of transports, by default all, allows shared memory.
bool may_use_shared_memory() {
  const char* chosen = std::getenv("UCX_TLS");
  const std::string transports = chosen == nullptr ? "all" : chosen;
  const auto names = {"all", "sm", "shm", "mm", "posix", "sysv", "^"};
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return transports.find(name) != transports.npos; });
}

/// Sets defaults in the environment, since UCX warns on stdout about ucp_config_modify() for a transport that is not
/// used.
void set_defaults() {
  for (const Default& setting : kDefaults) {
    // UCX also warns about a variable that no transport uses.
    if (std::string_view(setting.variable) != kSharedMemoryErrors || may_use_shared_memory()) {
      setenv(setting.variable, setting.value, 0);
    }
  }
}

Error unavailable(const std::string& what, ucs_status_t status) {
  return fail("--backend", "ucx", what + ": " + ucs_status_string(status),
              "--backend=gloo, or checking UCX_TLS and UCX_NET_DEVICES with `rollcall env`", ErrorKind::Unavailable);
}

}  // namespace

Result<std::shared_ptr<Context>> Context::get() {
  static std::mutex mutex;
  static std::weak_ptr<Context> current;
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<Context> existing = current.lock()) {
    return existing;
  }
  set_defaults();
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return unavailable("UCX cannot read its settings", status);
  }
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  parameters.name = "rollcall";
  ucp_context_h handle = nullptr;
  const ucs_status_t status = ucp_init(&parameters, config, &handle);
  ucp_config_release(config);
  if (status != UCS_OK) {
    return unavailable("UCX finds no transport", status);
  }
  std::shared_ptr<Context> made(new Context(handle));
  current = made;
  return made;
}

}  // namespace rollcall::process_group::ucx
