#pragma once

#include <ucp/api/ucp.h>
#include <memory>

#include "runtime/base/result.h"

namespace rollcall::process_group::ucx {

/// The process's UCX context: which transports there are, and how they behave. It outlives groups, so that a smaller
/// one can follow a broken one. Thread-safe.
///
/// Transports are UCX's own choice, shared memory within a host and InfiniBand or TCP between hosts, as UCX_TLS and
/// UCX_NET_DEVICES allow. What is changed are a few defaults, each unless the user's environment sets it,
/// in which they are put:
///   UCX_MM_ERROR_HANDLING=y      without it, noticing a dead peer would rule out shared memory
///   UCX_KEEPALIVE_INTERVAL=50ms  the default, 20 s, is how late a dead peer of this host would be noticed where its
///                                process cannot be watched (another container's)
///   UCX_TCP_TX_SEG_SIZE=512k and UCX_TCP_RX_SEG_SIZE=512k  8 KiB segments cost TCP a fifth of its bandwidth
class Context {
 public:
  /// The process's context, made where there is none. Errors (Unavailable): UCX finds no transport at all.
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
