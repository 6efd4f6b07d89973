// Each augmentation on a picture of 224 x 224 levels, and a training sample from decoded pixels to floats with and
// without them. Single-threaded.
//   augment_benchmark --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include <benchmark/benchmark.h>
#include <string>
#include <vector>

#include "trainer/data/transforms/batch_mix.h"
#include "trainer/data/transforms/operations.h"
#include "trainer/data/transforms/policy.h"
#include "trainer/data/transforms/transforms.h"

namespace rollcall::data {
namespace {

constexpr int kSide = 224;
constexpr ImageSize kPicture{500, 375};
constexpr int kBin = 9;

/// Levels like a photograph's: smooth in large parts, with noise.
std::vector<std::uint8_t> photo(ImageSize size) {
  Random random(1, Purpose::FakePixels, 0, 0);
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      for (int c = 0; c < kPixelBytes; ++c) {
        pixels.push_back(
            static_cast<std::uint8_t>((x * (c + 1) / 4 + y / 2) % 200 + static_cast<int>(random.below(32))));
      }
    }
  }
  pixels.resize(pixels.size() + 16);
  return pixels;
}

struct Floats {
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(kSide) * kSide * 3, 0.5F);

  [[nodiscard]] OutputPixels out() { return {values.data(), PixelType::Float32, kSide, kSide}; }
};

void operation(benchmark::State& state, Operation which) {
  std::vector<std::uint8_t> pixels = photo({kSide, kSide});
  const UInt8Image levels{pixels.data(), kSide, kSide};
  const double magnitude = magnitude_of(AugmentPolicy::RandAugment, which, kBin, {kSide, kSide});
  AugmentScratch scratch;
  const std::vector<std::uint8_t> fresh = pixels;
  for (auto _ : state) {
    std::copy(fresh.begin(), fresh.end(), pixels.begin());  // some operations leave little to do for the next time
    apply(which, magnitude, levels, scratch);
    benchmark::ClobberMemory();
  }
}

void hue(benchmark::State& state) {
  std::vector<std::uint8_t> pixels = photo({kSide, kSide});
  for (auto _ : state) {
    adjust_hue({pixels.data(), kSide, kSide}, 0.07);
    benchmark::ClobberMemory();
  }
}

void erasing(benchmark::State& state, EraseValue value) {
  Floats sample;
  AugmentScratch scratch;
  std::uint64_t n = 0;
  for (auto _ : state) {
    Random random(1, Purpose::Augmentation, 0, n++);
    RandomErasing(1, value).apply(sample.out(), random, scratch);
    benchmark::ClobberMemory();
  }
}

void mixing(benchmark::State& state, BatchMix mix) {
  Floats sample;
  Floats partner;
  for (auto _ : state) {
    mix_into(mix, sample.out(), partner.out());
    benchmark::ClobberMemory();
  }
}

/// RandomResizedCrop to floats with these options: what a sample costs after decoding.
void sample(benchmark::State& state, const AugmentOptions& options) {
  const std::vector<std::uint8_t> pixels = photo(kPicture);
  const PixelView view{
      pixels.data(), std::ptrdiff_t{kPicture.width} * kPixelBytes, {0, 0, kPicture.width, kPicture.height}};
  const TrainTransform transform{.augment = options};
  Floats floats;
  AugmentScratch scratch;
  std::uint64_t n = 0;
  for (auto _ : state) {
    Random random(1, Purpose::Augmentation, 0, n++ % 512);
    const Resize plan = transform.plan(kPicture, random);
    transform.apply(view, plan, random, floats.out(), scratch);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}

void register_all() {
  const char* const names[kOperations] = {"Identity",  "ShearX",     "ShearY",       "TranslateX", "TranslateY",
                                          "Rotate",    "Brightness", "Colour",       "Contrast",   "Sharpness",
                                          "Posterize", "Solarize",   "AutoContrast", "Equalize"};
  for (int i = 0; i < kOperations; ++i) {
    benchmark::RegisterBenchmark(("operation/" + std::string(names[i])).c_str(), operation, static_cast<Operation>(i));
  }
  benchmark::RegisterBenchmark("hue", hue);
  benchmark::RegisterBenchmark("erasing/zero", erasing, EraseValue::Zero);
  benchmark::RegisterBenchmark("erasing/random", erasing, EraseValue::Random);
  benchmark::RegisterBenchmark("mixup", mixing, BatchMix{.kind = BatchMix::Kind::MixUp, .lambda = 0.7});
  const BatchMix half{.kind = BatchMix::Kind::CutMix, .lambda = 0.5, .box = {0, 0, kSide, kSide / 2}};
  benchmark::RegisterBenchmark("cutmix", mixing, half);
  benchmark::RegisterBenchmark("sample/plain", sample, AugmentOptions{});
  benchmark::RegisterBenchmark("sample/no_operation", sample,
                               AugmentOptions{.policy = AugmentPolicy::RandAugment, .randaugment_ops = 0});
  benchmark::RegisterBenchmark("sample/randaugment", sample, AugmentOptions{.policy = AugmentPolicy::RandAugment});
  benchmark::RegisterBenchmark("sample/trivial", sample, AugmentOptions{.policy = AugmentPolicy::TrivialAugmentWide});
  benchmark::RegisterBenchmark("sample/augmix", sample, AugmentOptions{.policy = AugmentPolicy::AugMix});
  benchmark::RegisterBenchmark("sample/3-augment", sample, AugmentOptions{.policy = AugmentPolicy::ThreeAugment});
  const ColourJitterOptions jitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  benchmark::RegisterBenchmark("sample/colour_jitter", sample, AugmentOptions{.colour_jitter = jitter});
}

}  // namespace
}  // namespace rollcall::data

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  rollcall::data::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
