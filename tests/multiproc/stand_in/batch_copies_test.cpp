// Batches on a device that makes copies as late as it may: what is still to be read is not written.

#include "trainer/data/loader/batch_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"

namespace rollcall::data {
namespace {

using testing_support::all_succeeded;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

constexpr int kSize = 4;
constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kImages = 40;  // the last batch is short

/// Pixels and label are the sample's number.
class NumberedDataset : public Dataset {
 public:
  std::int64_t size() const override { return kImages; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string describe(std::int64_t index) const override { return std::to_string(index); }
  Result<std::int64_t> read(std::int64_t index, std::uint64_t /*epoch*/, const OutputPixels& out,
                            Workspace& /*workspace*/) const override {
    std::ranges::fill(std::span(static_cast<float*>(out.data), out.elements()), static_cast<float>(index));
    return index;
  }

 private:
  std::vector<std::string> names_;
};

/// In a process of its own: a device starts threads, and other tests fork.
void run(const std::function<void()>& test) {
  const auto ranks = spawn(1, [&](testing_support::Rank& /*rank*/) { test(); });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

Loader make_loader(int workers) {
  return Loader(std::make_shared<NumberedDataset>(), {.workers = workers,
                                                      .prefetch = 1,
                                                      .batch_size = kBatch,
                                                      .image_size = kSize,
                                                      .pinned = true,
                                                      .held = BatchCopies::kInFlight});
}

/// What the device is given to do with each batch of an epoch: a copy of it, made as late as all else.
struct Epoch {
  std::vector<at::Tensor> images, labels;
  std::set<const void*> host_memory;  ///< that the loader has used
};

Epoch place_all(Loader& loader, BatchCopies& copies) {
  Sampler sampler({.dataset_size = kImages, .batch_size = kBatch, .shuffle = false});
  MULTIPROC_CHECK(loader.start(sampler).has_value());
  Epoch epoch;
  while (true) {
    auto batch = loader.next();
    MULTIPROC_CHECK(batch.has_value());
    if (!*batch) {
      return epoch;
    }
    epoch.host_memory.insert((*batch)->images.const_data_ptr());
    const Batch there = copies.place(**std::move(batch));
    epoch.images.push_back(at::empty_like(there.images).copy_(there.images));
    epoch.labels.push_back(at::empty_like(there.labels).copy_(there.labels));
  }
}

void check(const Epoch& epoch) {
  std::int64_t next = 0;
  for (std::size_t i = 0; i < epoch.labels.size(); ++i) {
    const at::Tensor labels = epoch.labels[i].to(at::kCPU);
    const at::Tensor expected = torch::arange(next, next + labels.size(0), at::kLong);
    next += labels.size(0);
    MULTIPROC_CHECK(labels.equal(expected));
    const at::Tensor images = epoch.images[i].to(at::kCPU);
    MULTIPROC_CHECK(images.equal(expected.to(at::kFloat).view({-1, 1, 1, 1}).expand_as(images)));
  }
  MULTIPROC_CHECK(next >= kImages - kBatch);
}

TEST(BatchCopies, LateCopiesHaveTheBatchesThatTheyWereGiven) {
  for (const int workers : {0, 2}) {
    run([workers] {
      Loader loader = make_loader(workers);
      BatchCopies copies(stand_in::device());
      const std::int64_t copied = stand_in::counts().late_copies;
      const Epoch epoch = place_all(loader, copies);
      MULTIPROC_CHECK(stand_in::counts().late_copies > copied);
      check(epoch);
    });
  }
}

TEST(BatchCopies, NoMemoryIsMadeFromOneBatchToTheNext) {
  run([] {
    constexpr int kWorkers = 2;
    Loader loader = make_loader(kWorkers);
    BatchCopies copies(stand_in::device());
    std::set<const void*> memory;
    for (int i = 0; i < 3; ++i) {
      memory.merge(place_all(loader, copies).host_memory);
    }
    MULTIPROC_CHECK(memory.size() <= kWorkers + 1 + BatchCopies::kInFlight);
  });
}

TEST(BatchCopies, OnTheCpuABatchStaysWhereItIs) {
  BatchCopies copies(at::kCPU);
  const at::Tensor images = torch::ones({2, 3, kSize, kSize});
  Batch batch;
  batch.images = images;
  EXPECT_EQ(copies.place(batch).images.const_data_ptr(), images.const_data_ptr());
}

}  // namespace
}  // namespace rollcall::data
