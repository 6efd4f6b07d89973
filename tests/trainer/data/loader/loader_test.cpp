#include "trainer/data/loader/loader.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <atomic>
#include <set>
#include <stdexcept>

#include "runtime/base/this_process.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/data/sampling/random.h"

namespace rollcall::data {
namespace {

constexpr int kSize = 6;

/// Pixels and label encode index and epoch; some samples are bad.
class NumberedDataset : public Dataset {
 public:
  explicit NumberedDataset(std::int64_t size, std::set<std::int64_t> bad = {}) : size_(size), bad_(std::move(bad)) {}

  std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return index; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string describe(std::int64_t index) const override { return "sample " + std::to_string(index); }

  Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                            Workspace& /*workspace*/) const override {
    ++reads_;
    nice = getpriority(PRIO_PROCESS, 0);
    for (const std::uint32_t cpu : cpus_of_this_process()) {  // of this thread
      seen_cpus |= std::uint64_t{1} << (cpu % 64);
    }
    EXPECT_EQ(out.elements(), static_cast<std::size_t>(kSize * kSize * 3));
    const std::span pixels(static_cast<float*>(out.data), out.elements());
    if (index == throws_at) {
      throw std::runtime_error("out of luck");
    }
    if (bad_.contains(index)) {
      std::fill(pixels.begin(), pixels.end(), -1e9F);
      return fail("--data", describe(index), "is damaged", "replacing it", bad_kind);
    }
    Random(1, Purpose::FakePixels, epoch, static_cast<std::uint64_t>(index)).fill_normal(pixels);
    pixels[0] = static_cast<float>(index);
    return index % 7;
  }

  int reads() const { return reads_; }
  std::int64_t throws_at = -1;
  ErrorKind bad_kind = ErrorKind::BadData;
  mutable std::atomic<std::uint64_t> seen_cpus = 0;  ///< a bit for each that a reading thread might run on
  mutable std::atomic<int> nice = 0;                 ///< of the thread that read the last sample

 private:
  std::int64_t size_;
  std::set<std::int64_t> bad_;
  std::vector<std::string> names_;
  mutable std::atomic<int> reads_ = 0;
};

Sampler make_sampler(std::int64_t size, std::int64_t batch_size, bool pad = false) {
  SamplerOptions options;
  options.dataset_size = size;
  options.batch_size = batch_size;
  options.shuffle = true;
  options.pad = pad;
  return Sampler(options);
}

LoaderOptions make_options(int workers, std::int64_t batch_size, BadSamples bad = BadSamples::Skip) {
  return {.workers = workers, .prefetch = 2, .batch_size = batch_size, .image_size = kSize, .bad_samples = bad};
}

std::vector<Batch> read_all(Loader& loader) {
  std::vector<Batch> batches;
  for (;;) {
    Result<std::optional<Batch>> batch = loader.next();
    if (!batch) {
      ADD_FAILURE() << batch.error().message();
      return batches;
    }
    if (!batch->has_value()) {
      return batches;
    }
    batches.push_back(**std::move(batch));
  }
}

class LoaderWithWorkers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Count, LoaderWithWorkers, testing::Values(0, 1, 3, 8));

TEST_P(LoaderWithWorkers, ReturnsTheSameTensorsInTheOrderOfTheSampler) {
  const auto dataset = std::make_shared<NumberedDataset>(53);
  Sampler sampler = make_sampler(53, 8, true);
  sampler.set_epoch(4);
  Loader loader(dataset, make_options(GetParam(), 8));
  ASSERT_TRUE(loader.start(sampler));
  const std::vector<Batch> batches = read_all(loader);
  ASSERT_EQ(batches.size(), 7U);
  std::vector<float> expected(kSize * kSize * 3);
  const OutputPixels out{expected.data(), PixelType::Float32, kSize, kSize};
  Workspace workspace;
  for (const Batch& batch : batches) {
    const auto samples = sampler.batch(batch.step);
    EXPECT_EQ(batch.step, &batch - batches.data());
    EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{8, 3, kSize, kSize}));
    EXPECT_TRUE(batch.images.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(batch.bad.empty());
    for (std::int64_t i = 0; i < 8; ++i) {
      const SampleRef& sample = samples[static_cast<std::size_t>(i)];
      ASSERT_EQ(batch.labels[i].item<std::int64_t>(), *dataset->read(sample.index, 4, out, workspace));
      ASSERT_EQ(batch.counted[i].item<bool>(), sample.counted);
      const at::Tensor pixels = at::from_blob(expected.data(), {kSize, kSize, 3}).permute({2, 0, 1});
      ASSERT_TRUE(at::equal(batch.images[i], pixels)) << "step " << batch.step << ", sample " << i;
    }
  }
  EXPECT_FALSE(loader.next()->has_value());  // and it stays at the end
}

TEST_P(LoaderWithWorkers, StartsAtAnyStepRepeatedly) {
  Loader loader(std::make_shared<NumberedDataset>(40), make_options(GetParam(), 4));
  ASSERT_TRUE(loader.start(make_sampler(40, 4), 7));
  const auto rest = read_all(loader);
  ASSERT_EQ(rest.size(), 3U);
  EXPECT_EQ(rest[0].step, 7);
  ASSERT_TRUE(loader.start(make_sampler(40, 4)));
  EXPECT_EQ(loader.next()->value().step, 0);
  ASSERT_TRUE(loader.start(make_sampler(40, 4), 9));  // in mid-epoch
  EXPECT_EQ(read_all(loader).size(), 1U);
  ASSERT_TRUE(loader.start(make_sampler(40, 4), 10));
  EXPECT_TRUE(read_all(loader).empty());
}

TEST_P(LoaderWithWorkers, StopsReadingWhenDestroyedMidEpoch) {
  const auto dataset = std::make_shared<NumberedDataset>(10'000);
  {
    Loader loader(dataset, make_options(GetParam(), 4));
    ASSERT_TRUE(loader.start(make_sampler(10'000, 4)));
    EXPECT_TRUE(loader.next()->has_value());
  }
  EXPECT_LE(dataset->reads(), (2 * GetParam() + 1) * 4);
}

TEST_P(LoaderWithWorkers, ReusesTensorsThatWereReleased) {
  Loader loader(std::make_shared<NumberedDataset>(400), make_options(GetParam(), 4));
  ASSERT_TRUE(loader.start(make_sampler(400, 4)));
  std::set<const void*> memory;
  int batches = 0;
  for (auto batch = loader.next(); batch && batch->has_value(); batch = loader.next()) {
    memory.insert((*batch)->images.data_ptr());
    *batch = std::nullopt;
    ++batches;
  }
  EXPECT_EQ(batches, 100);
  EXPECT_LE(memory.size(), std::max<std::size_t>(2, 2 * static_cast<std::size_t>(GetParam()) + 1));
}

TEST_P(LoaderWithWorkers, DoesNotReuseTensorsWithLiveViews) {
  Loader loader(std::make_shared<NumberedDataset>(200), make_options(GetParam(), 4));
  ASSERT_TRUE(loader.start(make_sampler(200, 4)));
  at::Tensor view = loader.next()->value().images.select(0, 2).select(0, 1);
  const at::Tensor before = view.clone();
  EXPECT_EQ(read_all(loader).size(), 49U);
  EXPECT_TRUE(at::equal(view, before));
}

TEST_P(LoaderWithWorkers, DoesNotReuseMemorySharedByAnotherTensor) {
  Loader loader(std::make_shared<NumberedDataset>(200), make_options(GetParam(), 4));
  ASSERT_TRUE(loader.start(make_sampler(200, 4)));
  // Unlike a view it keeps the memory alone, not the tensor that it came from.
  at::Tensor other = torch::empty({0});
  other.set_(loader.next()->value().images.storage());
  const at::Tensor before = other.clone();
  EXPECT_EQ(read_all(loader).size(), 49U);
  EXPECT_TRUE(at::equal(other, before));
}

TEST_P(LoaderWithWorkers, ContinuesWithTheNextEpochAfterCompleteAndPartialEpochs) {
  Loader loader(std::make_shared<NumberedDataset>(24), make_options(GetParam(), 5));
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
    Sampler sampler = make_sampler(24, 5, true);
    sampler.set_epoch(epoch);
    ASSERT_TRUE(loader.start(sampler));
    if (epoch % 3 == 0) {
      EXPECT_EQ(read_all(loader).size(), 5U);
    } else {
      EXPECT_EQ(loader.next()->value().images[0][0][0][0].item<float>(), static_cast<float>(sampler.batch(0)[0].index));
    }
  }
}

TEST(LoaderThreads, RunAtLowerPriority) {
  const auto dataset = std::make_shared<NumberedDataset>(8);
  Loader loader(dataset, make_options(2, 4));
  ASSERT_TRUE(loader.start(make_sampler(8, 4)));
  EXPECT_EQ(read_all(loader).size(), 2U);
  EXPECT_GT(dataset->nice, getpriority(PRIO_PROCESS, 0));
}

TEST(Loader, WorkersRunOnTheGivenCpus) {
  const std::vector<std::uint32_t> own = cpus_of_this_process();
  const auto dataset = std::make_shared<NumberedDataset>(40);
  LoaderOptions options = make_options(3, 4);
  options.worker_cpus = {own.back()};
  Loader loader(dataset, options);
  ASSERT_TRUE(loader.start(make_sampler(40, 4)));
  (void)read_all(loader);
  EXPECT_EQ(dataset->seen_cpus, std::uint64_t{1} << (own.back() % 64));
  EXPECT_EQ(cpus_of_this_process(), own);  // the caller's thread stays where it was
}

TEST_P(LoaderWithWorkers, Bfloat16BatchesAreTheRoundedFloatBatches) {
  LoaderOptions options = make_options(GetParam(), 4);
  const auto dataset = std::make_shared<FakeDataset>(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, 1);
  Loader exact(dataset, options);
  options.pixel_type = PixelType::BFloat16;
  Loader rounded(dataset, options);
  ASSERT_TRUE(exact.start(make_sampler(8, 4)));
  ASSERT_TRUE(rounded.start(make_sampler(8, 4)));
  const auto expected = read_all(exact);
  const auto batches = read_all(rounded);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_TRUE(at::equal(batches[1].images, expected[1].images.to(at::kBFloat16)));
}

TEST_P(LoaderWithWorkers, MixUpBlendsEachSampleWithThePreviousAndReturnsBothLabels) {
  LoaderOptions options = make_options(GetParam(), 4);
  const auto dataset = std::make_shared<NumberedDataset>(40);
  Loader plain(dataset, options);
  options.mixing.mixup_alpha = 1;
  Loader mixed(dataset, options);
  ASSERT_TRUE(plain.start(make_sampler(40, 4)));
  ASSERT_TRUE(mixed.start(make_sampler(40, 4)));
  const auto expected = read_all(plain);
  const auto batches = read_all(mixed);
  ASSERT_EQ(batches.size(), 10U);
  std::set<double> weights;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const double weight = batches[i].label_weight;
    weights.insert(weight);
    EXPECT_TRUE(at::equal(batches[i].labels, expected[i].labels));
    EXPECT_TRUE(at::equal(batches[i].second_labels, expected[i].labels.roll(1)));
    const at::Tensor images = expected[i].images * weight + expected[i].images.roll(1, 0) * (1 - weight);
    EXPECT_TRUE(at::allclose(batches[i].images, images, 1e-5, 1e-5));
  }
  EXPECT_EQ(weights.size(), 10U);
}

TEST_P(LoaderWithWorkers, ReplacesABadSampleByTheNextGoodOneAndNamesIt) {
  SamplerOptions in_order;
  in_order.dataset_size = 8;
  in_order.batch_size = 4;
  Loader loader(std::make_shared<NumberedDataset>(8, std::set<std::int64_t>{1, 2, 7}), make_options(GetParam(), 4));
  ASSERT_TRUE(loader.start(Sampler(in_order)));
  const auto batches = read_all(loader);
  ASSERT_EQ(batches.size(), 2U);
  const auto first_pixels = [](const Batch& batch) {
    const at::Tensor column = batch.images.select(1, 0).select(1, 0).select(1, 0).contiguous();
    return std::vector<float>(column.data_ptr<float>(), column.data_ptr<float>() + column.numel());
  };
  EXPECT_EQ(first_pixels(batches[0]), (std::vector<float>{0, 3, 3, 3}));
  EXPECT_EQ(first_pixels(batches[1]), (std::vector<float>{4, 5, 6, 4}));  // cyclically
  EXPECT_EQ(batches[0].labels[1].item<std::int64_t>(), 3);
  EXPECT_TRUE(at::equal(batches[0].counted.to(at::kInt), at::tensor({1, 0, 0, 1})));
  EXPECT_TRUE(at::equal(batches[1].counted.to(at::kInt), at::tensor({1, 1, 1, 0})));
  ASSERT_EQ(batches[0].bad.size(), 2U);
  EXPECT_NE(batches[0].bad[0].message().find("sample 1: is damaged"), std::string::npos) << batches[0].bad[0].message();
}

TEST_P(LoaderWithWorkers, NamesABadSampleOnceIfItAlsoPadsABatch) {
  SamplerOptions in_order;
  in_order.dataset_size = 7;
  in_order.batch_size = 4;
  in_order.pad = true;  // with sample 0
  Loader loader(std::make_shared<NumberedDataset>(7, std::set<std::int64_t>{0}), make_options(GetParam(), 4));
  ASSERT_TRUE(loader.start(Sampler(in_order)));
  const auto batches = read_all(loader);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_FALSE(batches[1].counted[3].item<bool>());
  EXPECT_EQ(batches[0].bad.size(), 1U);
  EXPECT_EQ(batches[1].bad.size(), 0U);
}

void expect_error(Loader& loader, const std::string& value, ExitCode code, const std::string& reason = "") {
  Result<std::optional<Batch>> batch = loader.next();
  while (batch && batch->has_value()) {
    batch = loader.next();
  }
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().value, value);
  EXPECT_EQ(batch.error().exit_code(), code);
  EXPECT_NE(batch.error().reason.find(reason), std::string::npos) << batch.error().reason;
  EXPECT_FALSE(loader.next()->has_value());  // the epoch is over
}

TEST_P(LoaderWithWorkers, FailsAtTheFirstBadSampleWithBadSamplesFail) {
  SamplerOptions in_order;
  in_order.dataset_size = 30;
  in_order.batch_size = 10;
  Loader loader(std::make_shared<NumberedDataset>(30, std::set<std::int64_t>{17, 14, 29}),
                make_options(GetParam(), 10, BadSamples::Fail));
  ASSERT_TRUE(loader.start(Sampler(in_order)));
  expect_error(loader, "sample 14", ExitCode::BadData);
}

TEST_P(LoaderWithWorkers, SkipDamagedStillFailsOnFileSystemErrors) {
  SamplerOptions in_order;
  in_order.dataset_size = in_order.batch_size = 10;
  const auto dataset = std::make_shared<NumberedDataset>(10, std::set<std::int64_t>{4});
  Loader skipping(dataset, make_options(GetParam(), 10, BadSamples::SkipDamaged));
  ASSERT_TRUE(skipping.start(Sampler(in_order)));
  EXPECT_TRUE(skipping.next());
  dataset->bad_kind = ErrorKind::InputOutput;
  Loader failing(dataset, make_options(GetParam(), 10, BadSamples::SkipDamaged));
  ASSERT_TRUE(failing.start(Sampler(in_order)));
  expect_error(failing, "sample 4", ExitCode::InputOutput);
}

TEST_P(LoaderWithWorkers, BatchWithoutAGoodSampleIsAnErrorEvenWithSkip) {
  Loader loader(std::make_shared<NumberedDataset>(1, std::set<std::int64_t>{0}), make_options(GetParam(), 4));
  ASSERT_TRUE(loader.start(make_sampler(1, 4, true)));
  expect_error(loader, "sample 0", ExitCode::BadData,
               "cannot be used, nor can any other sample of this batch: is damaged");
}

TEST_P(LoaderWithWorkers, BatchOfUnreadableFilesIsAnInputOutputError) {
  const auto dataset = std::make_shared<NumberedDataset>(2, std::set<std::int64_t>{0, 1});
  dataset->bad_kind = ErrorKind::NoInput;
  Loader loader(dataset, make_options(GetParam(), 2));
  SamplerOptions in_order;
  in_order.dataset_size = in_order.batch_size = 2;
  ASSERT_TRUE(loader.start(Sampler(in_order)));
  expect_error(loader, "sample 0", ExitCode::InputOutput);
}

TEST_P(LoaderWithWorkers, ExceptionInADatasetIsReturnedAsAnError) {
  const auto dataset = std::make_shared<NumberedDataset>(20);
  dataset->throws_at = 13;
  Loader loader(dataset, make_options(GetParam(), 5));
  ASSERT_TRUE(loader.start(make_sampler(20, 5)));
  expect_error(loader, "sample 13", ExitCode::Internal);
}

TEST_P(LoaderWithWorkers, EmptyBatchOfAShortEpochHasEmptyTensors) {
  SamplerOptions short_epoch;
  short_epoch.dataset_size = 2;
  short_epoch.batch_size = 2;
  short_epoch.world_size = 2;
  short_epoch.rank = 1;
  Loader loader(std::make_shared<NumberedDataset>(2), make_options(GetParam(), 2));
  ASSERT_TRUE(loader.start(Sampler(short_epoch)));
  const auto batches = read_all(loader);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].images.size(0), 0);
}

/// A dataset whose images may have several classes; the labels of the numbered one are sets of them.
class DatasetOfSets : public NumberedDataset {
 public:
  using NumberedDataset::NumberedDataset;
  const LabelSets* label_sets() const override { return &sets_; }

 private:
  LabelSets sets_{{"", "a", "b", "a b", "c", "a c", "a b c"}};
};

TEST(LoaderOfSeveralLabels, LabelsAreRowsAlsoOfReplacedAndMixedSamples) {
  LoaderOptions options = make_options(2, 4);
  options.mixing.mixup_alpha = 0.4;
  const auto dataset = std::make_shared<DatasetOfSets>(24, std::set<std::int64_t>{6});
  Loader loader(dataset, options);
  const Sampler sampler = make_sampler(24, 4);
  ASSERT_TRUE(loader.start(sampler));
  const auto rows_of = [&](std::vector<std::int64_t> indices) {
    std::vector<float> rows;
    for (std::int64_t& index : indices) {
      if (index == 6) {  // unreadable: the next one of the batch is in its place
        index = indices[(static_cast<std::size_t>(&index - indices.data()) + 1) % indices.size()];
      }
      rows.resize(rows.size() + 3);
      dataset->label_sets()->write_row(index % 7, std::span(rows).last(3));
    }
    return torch::tensor(rows).view({-1, 3});
  };
  for (std::int64_t step = 0; step < sampler.steps(); ++step) {
    const Batch batch = **loader.next();
    std::vector<std::int64_t> indices;
    for (const SampleRef& sample : sampler.batch(step)) {
      indices.push_back(sample.index);
    }
    const at::Tensor rows = rows_of(indices);
    EXPECT_TRUE(torch::equal(batch.labels, rows)) << step;
    EXPECT_TRUE(torch::equal(batch.second_labels, rows.roll(1, 0))) << step;
  }
}

/// Images whose pixels are their size.
class SizedDataset : public Dataset {
 public:
  std::int64_t size() const override { return 24; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t label(std::int64_t index) const override { return index % 7; }
  std::string describe(std::int64_t index) const override { return std::to_string(index); }
  Result<std::int64_t> read(std::int64_t index, std::uint64_t /*epoch*/, const OutputPixels& out,
                            Workspace& /*workspace*/) const override {
    std::fill_n(static_cast<float*>(out.data), out.elements(), static_cast<float>(out.width));
    return index % 7;
  }

 private:
  std::vector<std::string> names_;
};

TEST(LoaderOfGrowingImages, TheSizeChangesBetweenEpochsInTheSameMemory) {
  LoaderOptions options = make_options(2, 4);
  options.image_size = 96;
  options.growth = {.smallest = 32, .begin = 1, .end = 3};
  Loader loader(std::make_shared<SizedDataset>(), options);
  Sampler sampler = make_sampler(24, 4);
  std::set<const void*> places;
  for (const auto& [epoch, size] : {std::pair(0U, 32), {3U, 96}, {1U, 32}, {2U, 64}, {0U, 32}, {7U, 96}}) {
    sampler.set_epoch(epoch);
    ASSERT_TRUE(loader.start(sampler));
    for (int i = 0; i < 6; ++i) {
      const Batch batch = **loader.next();
      ASSERT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{4, 3, size, size}));
      EXPECT_TRUE(batch.images.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_TRUE(batch.images.eq(size).all().item<bool>());
      places.insert(batch.images.data_ptr());
    }
  }
  EXPECT_LE(places.size(), 5U);  // a ring of 2 * 2 batches and the one that is held
}

TEST(LoaderOfGrowingImages, SizesAreThoseOfFfcv) {
  // get_resolution() of FFCV's rn50 for 16 epochs: min_res=160, max_res=192, start_ramp=11, end_ramp=13.
  const ImageSizeSchedule ramp{.smallest = 160, .begin = 11, .end = 13};
  EXPECT_EQ(ramp.size(0, 192), 160);
  EXPECT_EQ(ramp.size(11, 192), 160);
  EXPECT_EQ(ramp.size(12, 192), 192);  // 176 / 32 is 5.5, which rounds to the even number
  EXPECT_EQ(ramp.size(13, 192), 192);
  const ImageSizeSchedule longer{.smallest = 128, .begin = 0, .end = 8};
  EXPECT_EQ(longer.size(3, 224), 160);
  EXPECT_EQ(longer.size(6, 224), 192);
  const ImageSizeSchedule narrow{.smallest = 140, .begin = 0, .end = 10};
  EXPECT_EQ(narrow.size(1, 150), 140);  // a multiple of 32 would be outside
  EXPECT_EQ(ImageSizeSchedule{}.size(3, 224), 224);
}

}  // namespace
}  // namespace rollcall::data
