#pragma once

#include <functional>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace rollcall::process_group {

/// Whether what waits is to give up. Called by any thread, about ten times a second.
using Interrupted = std::function<bool()>;

/// `store`, whose waits for keys end early where `interrupted`, as they do after their timeout: with a
/// c10::DistStoreError. For ranks that wait for what a lost one was to tell. Clones do the same. As thread-safe as
/// `store`.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> interruptible(c10::intrusive_ptr<c10d::Store> store,
                                                            Interrupted interrupted);

}  // namespace rollcall::process_group
