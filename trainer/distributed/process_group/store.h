#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/result.h"
#include "runtime/rendezvous/meet.h"

namespace rollcall::process_group {

/// Connects this rank to the step's key-value store, which rank 0 serves on the socket of `meeting` (taken over: its
/// listener is released). Collective: returns once every rank is connected, so that `meeting` may go. All keys get the
/// prefix of this world's meeting and generation of ranks ("rollcall/4711-0-0-0123456789abcdef/0/"), so that neither a
/// stranger's keys nor those of other generations in the same store are ever taken for its own.
///
/// `timeout` bounds the wait for the others and becomes the store's own.
/// Errors (Unavailable): rank 0 cannot be reached; not all ranks came in time (says how many did).
[[nodiscard]] Result<c10::intrusive_ptr<c10d::Store>> connect_store(rendezvous::Meeting& meeting, std::uint32_t rank,
                                                                    std::uint32_t world_size,
                                                                    std::chrono::milliseconds timeout);

/// Waits until all ranks have called this once with the same store: what connect_store() ends with. Errors: as above.
[[nodiscard]] Result<void> await_all_ranks(c10d::Store& store, std::uint32_t rank, std::uint32_t world_size,
                                           std::chrono::milliseconds timeout);

/// Whether what waits is to give up. Called by any thread, about ten times a second.
using Interrupted = std::function<bool()>;

/// `store`, whose waits for keys end early where `interrupted`, as they do after their timeout: with a
/// c10::DistStoreError. For ranks that wait for what a lost one was to tell. Clones do the same. As thread-safe as
/// `store`.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> interruptible(c10::intrusive_ptr<c10d::Store> store,
                                                            Interrupted interrupted);

}  // namespace rollcall::process_group
