#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/result.h"
#include "runtime/rendezvous/meet.h"

namespace rollcall::process_group {

/// Whether what waits is to give up. Called by any thread, about ten times a second; does not use the store.
using Interrupted = std::function<bool()>;

/// This rank's way to its world's key-value store, which rank 0 serves in this process on the connections on which the
/// ranks met (taken out of `meeting`, whose listener is closed). Waits for nobody.
///
/// Thread-safe; clones share the connection. Rank 0's keys go with the store that is returned here: its clones, and the
/// other ranks, are told from then on that the store is gone.
///
/// `timeout`: of waits for keys that name none. They end early where `interrupted`, which may be empty, as they do
/// after their timeout. Throws as c10d::TCPStore does: c10::DistStoreError after a timeout, c10::DistNetworkError where
/// rank 0's store is gone; and the former where the store is full (runtime/store/table.h). Errors (Unavailable): no
/// descriptor or thread is to be had.
[[nodiscard]] Result<c10::intrusive_ptr<c10d::Store>> connect_store(rendezvous::Meeting& meeting, std::uint32_t rank,
                                                                    std::uint32_t world_size,
                                                                    std::chrono::milliseconds timeout,
                                                                    Interrupted interrupted = {});

}  // namespace rollcall::process_group
