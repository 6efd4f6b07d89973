// The guarantees of a HostLink on the order of copies, one per test, on a device that copies as late as it may.

#include "trainer/distributed/fsdp/host_link.h"

#include <gtest/gtest.h>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"

namespace rollcall::parallel::fsdp {
namespace {

using testing_support::all_succeeded;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

struct Place {
  UnshardedMemory memory{stand_in::device()};
  Counters counters;
  HostLink link{memory, counters};

  [[nodiscard]] at::Tensor on_host(double value) const {
    return torch::empty({1000}, link.host_options(at::kFloat)).fill_(value);
  }
  [[nodiscard]] static at::Tensor on_device(double value) { return torch::full({1000}, value).to(stand_in::device()); }
};

bool holds(const at::Tensor& tensor, double value) { return tensor.to(at::kCPU).eq(value).all().item<bool>(); }

/// In a process of its own: a device starts threads, and other tests fork.
void run_in_place(const std::function<void(Place&)>& test) {
  const auto ranks = spawn(1, [&](testing_support::Rank& /*rank*/) {
    Place place;
    test(place);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(HostLink, ResultOfAnUploadIsReadableAfterAwait) {
  run_in_place([](Place& place) {
    const at::Tensor host = place.on_host(1);
    const at::Tensor made = place.on_device(0);
    place.link.await(place.link.run_on_upload_stream([&] { made.copy_(place.link.upload(host)); }));
    MULTIPROC_CHECK(holds(made, 1));
    MULTIPROC_CHECK(place.counters.uploaded_bytes == 4000);
  });
}

TEST(HostLink, SourceOfAnUploadMayChangeAfterWait) {
  run_in_place([](Place& place) {
    const at::Tensor host = place.on_host(1);
    at::Tensor uploaded;
    const HostLink::Uploaded moment = place.link.run_on_upload_stream([&] { uploaded = place.link.upload(host); });
    place.link.wait();
    host.fill_(2);
    place.link.await(moment);
    MULTIPROC_CHECK(holds(uploaded, 1));
  });
}

TEST(HostLink, UploadFollowsEarlierWorkOfTheComputeStream) {
  run_in_place([](Place& place) {
    const at::Tensor host = place.on_host(2);
    const at::Tensor before = place.on_device(1);
    const at::Tensor copy = place.on_device(0);
    copy.copy_(before);  // late
    const HostLink::Uploaded moment = place.link.run_on_upload_stream([&] { before.copy_(place.link.upload(host)); });
    place.link.wait();  // for the upload alone
    MULTIPROC_CHECK(holds(copy, 1));
    place.link.await(moment);
    MULTIPROC_CHECK(holds(before, 2));
  });
}

TEST(HostLink, HostBlocksOnlyInWait) {
  run_in_place([](Place& place) {
    const at::Tensor up = place.on_host(1);
    at::Tensor down = place.on_host(0);
    const at::Tensor device = place.on_device(2);
    const std::int64_t waits = stand_in::counts().host_waits;
    place.link.await(place.link.run_on_upload_stream([&] { (void)place.link.upload(up); }));
    place.link.download(down, device);
    MULTIPROC_CHECK(stand_in::counts().host_waits == waits);
    place.link.wait();
  });
}

TEST(HostLink, AwaitWaitsOnlyForItsOwnUploads) {
  run_in_place([](Place& place) {
    const at::Tensor first = place.on_device(0);
    const at::Tensor second = place.on_device(0);
    const at::Tensor host = place.on_host(1);
    const HostLink::Uploaded of_first = place.link.run_on_upload_stream([&] { first.copy_(place.link.upload(host)); });
    const HostLink::Uploaded of_second =
        place.link.run_on_upload_stream([&] { second.copy_(place.link.upload(host)); });
    place.link.await(of_first);
    MULTIPROC_CHECK(holds(first, 1) && holds(second, 0));
    place.link.await(of_second);
    MULTIPROC_CHECK(holds(second, 1));
  });
}

TEST(HostLink, DownloadFollowsEarlierWorkAndIsCompleteAfterWait) {
  run_in_place([](Place& place) {
    const at::Tensor device = place.on_device(0);
    at::Tensor host = place.on_host(5);
    device.copy_(place.on_device(1));  // late
    place.link.download(host, device);
    place.link.wait();
    MULTIPROC_CHECK(holds(host, 1));
    MULTIPROC_CHECK(place.counters.downloaded_bytes == 4000);
  });
}

TEST(HostLink, SourceOfADownloadIsNotReusedBeforeItIsRead) {
  run_in_place([](Place& place) {
    at::Tensor first = place.on_host(0);
    at::Tensor second = place.on_host(0);
    place.link.download(first, place.on_device(1));
    const at::Tensor other = place.on_device(7);  // would take its memory
    place.link.download(second, place.on_device(2));
    const at::Tensor another = place.on_device(8);
    another.copy_(other);
    place.link.wait();
    MULTIPROC_CHECK(holds(first, 1) && holds(second, 2));
  });
}

TEST(HostLink, SynchronousDownloadCompletesEarlierDownloadsToo) {
  run_in_place([](Place& place) {
    at::Tensor earlier = place.on_host(0);
    place.link.download(earlier, place.on_device(1));
    const at::Tensor now = place.link.downloaded(place.on_device(2));
    MULTIPROC_CHECK(now.is_cpu() && holds(now, 2) && holds(earlier, 1));
  });
}

}  // namespace
}  // namespace rollcall::parallel::fsdp
