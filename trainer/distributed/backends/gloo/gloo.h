#pragma once

#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/libtorch_version.h"

namespace rollcall::process_group {

/// c10d's Gloo, but for all_gather_single() where all ranks are processes of one host: each rank sends its part
/// straight to every other one, which receives it where it is wanted. LibTorch 2.15's (AsyncAllgatherWork of
/// ProcessGroupGloo.cpp) receives in memory that it allocates for each call, and copies the result from there. Between
/// hosts its ring is left alone: what goes round crosses each host's network once, however many ranks are there.
class InPlaceGloo final : public c10d::ProcessGroupGloo {
 public:
  /// As c10d's; collective.
  InPlaceGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              const c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>& options);

  /// Tensors are contiguous; throws c10::Error otherwise.
  c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor& output, at::Tensor& input,
                                                   const c10d::AllgatherOptions& options) override;

  /// Whether all ranks are processes of this host; the same on all of them.
  [[nodiscard]] bool one_host() const { return one_host_; }

 private:
  class Gathering;
  void post(Gathering& gathering);

  const bool one_host_;
};

}  // namespace rollcall::process_group
