#pragma once

#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/libtorch_version.h"

namespace rollcall::process_group {

/// c10d's Gloo with another all_gather_single() for ranks that are all on one host: each rank sends its part directly
/// to every other one, which receives it in the output. LibTorch 2.15's own (AsyncAllgatherWork of
/// ProcessGroupGloo.cpp) receives into memory that it allocates for each call, and copies the result. Between hosts its
/// ring is used, since its data crosses each host's network once, however many ranks the host has.
class InPlaceGloo final : public c10d::ProcessGroupGloo {
 public:
  /// Connects all ranks, as c10d's constructor does. Collective.
  InPlaceGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              const c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>& options);

  /// Throws c10::Error if a tensor is not contiguous.
  c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor& output, at::Tensor& input,
                                                   const c10d::AllgatherOptions& options) override;

  /// Returns whether all ranks are processes of this host; the same on all of them.
  [[nodiscard]] bool one_host() const { return one_host_; }

 private:
  class Gathering;
  void post(Gathering& gathering);

  const bool one_host_;
};

}  // namespace rollcall::process_group
