#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/result.h"
#include "runtime/rendezvous/meet.h"

namespace rollcall::process_group {

/// Returns whether a wait is to end early. Called by any thread, about ten times a second; does not use the store.
using Interrupted = std::function<bool()>;

/// Returns this rank's client of its world's key-value store. Rank 0's process serves the store on the connections of
/// the rendezvous, which are taken out of `meeting`; its listener is closed. Does not wait for other ranks.
///
/// Thread-safe; clones share the connection. On rank 0 the keys are lost with the returned store: its clones, and the
/// other ranks, then get the error that the store is gone.
///
/// `timeout` is for waits that name none. When `interrupted`, which may be empty, returns true, a wait ends as after
/// its timeout. The store throws as c10d::TCPStore does: c10::DistStoreError after a timeout or if the store is full
/// (runtime/store/table.h), c10::DistNetworkError if rank 0's store is gone. Errors (Unavailable): no descriptor or
/// thread is available.
[[nodiscard]] Result<c10::intrusive_ptr<c10d::Store>> connect_store(rendezvous::Meeting& meeting, std::uint32_t rank,
                                                                    std::uint32_t world_size,
                                                                    std::chrono::milliseconds timeout,
                                                                    Interrupted interrupted = {});

}  // namespace rollcall::process_group
