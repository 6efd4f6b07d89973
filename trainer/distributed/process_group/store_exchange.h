#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/distributed/backends/engine/exchange.h"

namespace rollcall::process_group {

/// An exchange among `size` ranks by way of `store`, which nobody else uses, and whose errors it throws. Once.
[[nodiscard]] Exchange exchange_over(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

}  // namespace rollcall::process_group
