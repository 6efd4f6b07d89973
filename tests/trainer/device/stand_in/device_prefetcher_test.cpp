// Batches on a device that copies as late as it may: memory that is still to be read is not overwritten.

#include "trainer/data/loader/device_prefetcher.h"

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
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return index; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string describe(std::int64_t index) const override { return std::to_string(index); }
  Result<std::int64_t> read(std::int64_t index, std::uint64_t /*epoch*/, const OutputPixels& out,
                            Workspace& /*workspace*/) const override {
    if (out.type == PixelType::UInt8) {
      std::ranges::fill(std::span(static_cast<std::uint8_t*>(out.data), out.elements()), index);
    } else {
      std::ranges::fill(std::span(static_cast<float*>(out.data), out.elements()), static_cast<float>(index));
    }
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

Loader make_loader(int workers, PixelType type = PixelType::Float32) {
  return Loader(std::make_shared<NumberedDataset>(), {.workers = workers,
                                                      .prefetch = 1,
                                                      .batch_size = kBatch,
                                                      .image_size = kSize,
                                                      .pixel_type = type,
                                                      .pinned = true,
                                                      .held = DevicePrefetcher::kInFlight});
}

/// What the device is given to do with each batch of an epoch: a copy of it, made as late as all else.
struct Epoch {
  std::vector<at::Tensor> images, labels;
  std::set<const void*> host_memory;  ///< that the loader has used
};

Epoch place_all(Loader& loader, DevicePrefetcher& prefetcher) {
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
    const Batch there = prefetcher.to_device(**std::move(batch));
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

TEST(DevicePrefetcher, LateCopiesHoldTheRightBatches) {
  for (const int workers : {0, 2}) {
    run([workers] {
      Loader loader = make_loader(workers);
      DevicePrefetcher prefetcher(stand_in::device());
      const std::int64_t copied = stand_in::counts().late_copies;
      const Epoch epoch = place_all(loader, prefetcher);
      MULTIPROC_CHECK(stand_in::counts().late_copies > copied);
      check(epoch);
    });
  }
}

TEST(DevicePrefetcher, NormalisesUint8ImagesOnTheDevice) {
  const Normalisation wanted{.mean = {0.5, 0.25, 0}, .stddev = {0.5, 1, 2}};
  const auto first_of = [&](c10::Device device) {
    Loader loader = make_loader(1, PixelType::UInt8);
    DevicePrefetcher prefetcher(device, nullptr, wanted);
    const Epoch epoch = place_all(loader, prefetcher);
    MULTIPROC_CHECK(epoch.images.front().scalar_type() == at::kFloat && epoch.images.front().device() == device);
    return epoch.images.at(9).to(at::kCPU);
  };
  run([&] {
    const at::Tensor there = first_of(stand_in::device());
    MULTIPROC_CHECK(there.equal(first_of(at::kCPU)));
    const at::Tensor levels = torch::arange(27, 30, at::kDouble).view({3, 1, 1}) / 255;  // of the tenth batch
    const at::Tensor mean = torch::tensor({0.5, 0.25, 0.0}).view({1, 3, 1});
    const at::Tensor deviation = torch::tensor({0.5, 1.0, 2.0}).view({1, 3, 1});
    const at::Tensor expected = ((levels - mean) / deviation).unsqueeze(3);
    MULTIPROC_CHECK(there.allclose(expected.expand_as(there).to(at::kFloat), 1e-6, 1e-6));
  });
}

class LevelNormalisation : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(EachType, LevelNormalisation, ::testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

TEST_P(LevelNormalisation, KernelsConvertToTheComputeTypeInOnePass) {
  run([type = GetParam()] {
    const Normalisation wanted;
    Loader loader = make_loader(1, PixelType::UInt8);
    DevicePrefetcher prefetcher(stand_in::device(), &stand_in::own_kernels(), wanted, type);
    const Epoch epoch = place_all(loader, prefetcher);
    const at::Tensor there = epoch.images.at(9).to(at::kCPU);
    MULTIPROC_CHECK(there.scalar_type() == type && there.is_contiguous(at::MemoryFormat::ChannelsLast));
    const ChannelAffine affine = wanted.affine();
    const at::Tensor levels = torch::arange(27, 30, at::kDouble).view({3, 1, 1, 1});  // of the tenth batch
    const auto by_channel = [](const auto& values) {
      return torch::tensor({values[0], values[1], values[2]}, at::kFloat).to(at::kDouble).view({1, 3, 1, 1});
    };
    // Exact in float64 but for the last bits, then rounded once.
    const at::Tensor expected = (levels * by_channel(affine.scale) + by_channel(affine.bias)).to(at::kFloat).to(type);
    MULTIPROC_CHECK(there.equal(expected.expand_as(there)));
  });
}

TEST(DevicePrefetcher, DoesNotBlockTheHost) {
  for (const PixelType type : {PixelType::Float32, PixelType::UInt8}) {
    run([type] {
      Loader loader = make_loader(2, type);
      DevicePrefetcher prefetcher(stand_in::device());
      const std::int64_t waits = stand_in::counts().host_waits;
      (void)place_all(loader, prefetcher);
      MULTIPROC_CHECK(stand_in::counts().host_waits == waits);
    });
  }
}

TEST(DevicePrefetcher, ReusesHostMemoryBetweenBatches) {
  run([] {
    constexpr int kWorkers = 2;
    Loader loader = make_loader(kWorkers);
    DevicePrefetcher prefetcher(stand_in::device());
    std::set<const void*> memory;
    for (int i = 0; i < 3; ++i) {
      memory.merge(place_all(loader, prefetcher).host_memory);
    }
    MULTIPROC_CHECK(memory.size() <= kWorkers + 1 + DevicePrefetcher::kInFlight);
  });
}

TEST(DevicePrefetcher, DoesNotCopyBatchesOnTheCpu) {
  DevicePrefetcher prefetcher(at::kCPU);
  const at::Tensor images = torch::ones({2, 3, kSize, kSize});
  Batch batch;
  batch.images = images;
  EXPECT_EQ(prefetcher.to_device(batch).images.const_data_ptr(), images.const_data_ptr());
}

}  // namespace
}  // namespace rollcall::data
