#pragma once

#include <functional>
#include <optional>

#include "runtime/base/result.h"
#include "trainer/train/outcome.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// A run that ends with `error`; `lost_peer`: every rank has it, or the first cause is on another one.
[[nodiscard]] Outcome failed(Error error, bool lost_peer = false);

/// Runs LibTorch code: what it throws becomes the outcome. Back ends throw their own std::runtime_error when a peer is
/// gone. Nothing where all went well.
[[nodiscard]] std::optional<Outcome> guarded(const World& world, const std::function<void()>& work);

}  // namespace rollcall::train
