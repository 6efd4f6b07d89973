// Copies between the stand-in device and the host: as with CUDA, they are asynchronous only if the host memory is
// page-locked.

#include <gtest/gtest.h>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"
#include "trainer/streams.h"

namespace rollcall::testing_support::pinned_memory {
namespace {

/// In a process of its own: a device starts threads, and other tests fork.
void run(const std::function<void()>& test) {
  const auto ranks = spawn(1, [&](Rank& /*rank*/) { test(); });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

bool waits_in(const std::function<void()>& work) {
  const std::int64_t before = stand_in::counts().host_waits;
  work();
  return stand_in::counts().host_waits > before;
}

at::Tensor pinned(at::IntArrayRef sizes) { return at::empty(sizes, at::TensorOptions(at::kFloat).pinned_memory(true)); }

TEST(PinnedMemory, AllowsAsynchronousCopies) {
  run([] {
    const at::Tensor there = torch::ones({2, 3}).to(stand_in::device());
    const at::Tensor here = pinned({2, 3});
    MULTIPROC_CHECK(here.is_pinned() && !torch::ones({2}).is_pinned());
    MULTIPROC_CHECK(here.narrow(0, 1, 1).is_pinned());
    MULTIPROC_CHECK(!waits_in([&] { here.copy_(there, /*non_blocking=*/true); }));
    MULTIPROC_CHECK(!waits_in([&] { there.copy_(here, /*non_blocking=*/true); }));
    MULTIPROC_CHECK(waits_in([&] { here.copy_(there); }));
  });
}

TEST(PinnedMemory, PageableMemoryAlwaysBlocksTheHost) {
  run([] {
    const at::Tensor there = torch::ones({2, 3}).to(stand_in::device());
    const at::Tensor here = torch::zeros({2, 3});
    MULTIPROC_CHECK(waits_in([&] { here.copy_(there, /*non_blocking=*/true); }));
    MULTIPROC_CHECK(here.eq(1).all().item<bool>());
    MULTIPROC_CHECK(waits_in([&] { there.copy_(here, /*non_blocking=*/true); }));
  });
}

TEST(PinnedMemory, DoesNotHelpIfLibTorchNeedsATemporaryOnTheHost) {
  run([] {
    const at::Tensor there = torch::ones({2, 3}).to(stand_in::device());
    MULTIPROC_CHECK(waits_in([&] { there.copy_(pinned({2, 3}).to(at::kDouble), /*non_blocking=*/true); }));
    MULTIPROC_CHECK(waits_in([&] { there.copy_(pinned({3, 2}).t(), /*non_blocking=*/true); }));
    const at::Tensor columns = torch::ones({3, 2}).to(stand_in::device()).t();
    MULTIPROC_CHECK(!waits_in([&] { columns.copy_(pinned({2, 3}), /*non_blocking=*/true); }));  // there another one
  });
}

TEST(PinnedMemory, IsReusedOnlyAfterTheCopyCompleted) {
  run([] {
    at::Tensor there = torch::ones({8}).to(stand_in::device());
    at::Tensor here = pinned({8});
    const void* const first = here.const_data_ptr();
    there.copy_(here, /*non_blocking=*/true);
    here.reset();
    MULTIPROC_CHECK(pinned({8}).const_data_ptr() != first);
    current_stream(stand_in::device()).synchronize();
    const std::int64_t locks = stand_in::counts().page_locks;
    const at::Tensor again = pinned({8});
    const at::Tensor other = pinned({8});
    MULTIPROC_CHECK(again.const_data_ptr() == first || other.const_data_ptr() == first);
    MULTIPROC_CHECK(stand_in::counts().page_locks == locks);
  });
}

TEST(PinnedMemory, CannotBeAllocatedDuringCapture) {
  run([] {
    const c10::StreamGuard guard(new_stream(stand_in::device()));
    bool refused = false;
    (void)stand_in::capture([&] {
      try {
        (void)pinned({1 << 20});
      } catch (const c10::Error&) {
        refused = true;
      }
    });
    MULTIPROC_CHECK(refused);
  });
}

}  // namespace
}  // namespace rollcall::testing_support::pinned_memory
