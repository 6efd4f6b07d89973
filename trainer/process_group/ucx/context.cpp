#include "trainer/process_group/ucx/context.h"

#include <cstdlib>
#include <mutex>
#include <string>

namespace rollcall::process_group::ucx {
namespace {

struct Default {
  const char* name;
  const char* value;
};

constexpr Default kDefaults[] = {
    {"MM_ERROR_HANDLING", "y"},
    {"KEEPALIVE_INTERVAL", "50ms"},
    {"TCP_TX_SEG_SIZE", "256k"},
    {"TCP_RX_SEG_SIZE", "256k"},
};

/// Sets what the user did not. A UCX that no longer knows one of them has other ways, so that is no error.
void apply_defaults(ucp_config_t* config) {
  for (const Default& setting : kDefaults) {
    if (std::getenv((std::string("UCX_") + setting.name).c_str()) == nullptr) {
      (void)ucp_config_modify(config, setting.name, setting.value);
    }
  }
}

Error unavailable(const std::string& what, ucs_status_t status) {
  return fail("--backend", "ucx", what + ": " + ucs_status_string(status),
              "--backend=gloo, or looking at UCX_TLS and UCX_NET_DEVICES with `rollcall env`", ExitCode::Unavailable);
}

}  // namespace

Result<std::shared_ptr<Context>> Context::get() {
  static std::mutex mutex;
  static std::weak_ptr<Context> current;
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<Context> existing = current.lock()) {
    return existing;
  }
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return unavailable("UCX cannot read its settings", status);
  }
  apply_defaults(config);
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
