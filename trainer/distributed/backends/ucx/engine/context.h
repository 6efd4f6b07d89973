#pragma once

#include <ucp/api/ucp.h>
#include <memory>

#include "runtime/base/result.h"

namespace rollcall::process_group::ucx {

/// The process's UCX context: its transports and their configuration. It outlives groups, so that a smaller group can
/// follow a failed one. Thread-safe.
///
/// UCX chooses the transports, shared memory within a host and InfiniBand or TCP between hosts, as UCX_TLS and
/// UCX_NET_DEVICES allow. These defaults are changed in the environment, unless the user has set them:
///   UCX_MM_ERROR_HANDLING=y      without it, UCX could not detect dead peers over shared memory
///   UCX_KEEPALIVE_INTERVAL=50ms  the default of 20 s is the delay after which a dead peer of this host is noticed if
///   its
///                                process cannot be watched (in another container)
///   UCX_TCP_TX_SEG_SIZE=512k and UCX_TCP_RX_SEG_SIZE=512k  8 KiB segments cost TCP a fifth of its bandwidth
class Context {
 public:
  /// Returns the process's context, and makes it in the first call. Errors (Unavailable): UCX finds no transport.
  [[nodiscard]] static Result<std::shared_ptr<Context>> get();

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { ucp_cleanup(handle_); }

  [[nodiscard]] ucp_context_h handle() const { return handle_; }

 private:
  explicit Context(ucp_context_h handle) : handle_(handle) {}

  ucp_context_h handle_;
};

}  // namespace rollcall::process_group::ucx
