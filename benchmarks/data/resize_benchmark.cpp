// The resize from decoded pixels to the model's type: RandomResizedCrop's requests (mean 83,000 pixels of 500 x 375)
// into 224 x 224, flipped half of the time, by each instruction set that this CPU has. Single-threaded.
//   resize_benchmark --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include <benchmark/benchmark.h>
#include <string>
#include <vector>

#include "trainer/data/image/resize.h"
#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/transforms.h"

namespace rollcall::data {
namespace {

constexpr ImageSize kPicture{500, 375};
constexpr int kSide = 224;

struct Fixture {
  std::vector<std::uint8_t> pixels;
  std::vector<Resize> requests;
  std::vector<float> out = std::vector<float>(static_cast<std::size_t>(kSide) * kSide * 3);

  Fixture() {
    Random random(1, Purpose::FakePixels, 0, 0);
    pixels.resize(static_cast<std::size_t>(kPicture.width) * kPicture.height * kPixelBytes + 16);
    for (std::uint8_t& level : pixels) {
      level = static_cast<std::uint8_t>(random.bits());
    }
    for (std::uint64_t sample = 0; sample < 512; ++sample) {
      Random draws(1, Purpose::Augmentation, 0, sample);
      requests.push_back(TrainTransform{}.plan(kPicture, draws));
    }
  }

  [[nodiscard]] PixelView view() const {
    return {pixels.data(), std::ptrdiff_t{kPicture.width} * kPixelBytes, {0, 0, kPicture.width, kPicture.height}};
  }
};

template <typename Work>
void for_each_request(benchmark::State& state, const Work& work) {
  Fixture fixture;
  std::size_t next = 0;
  for (auto _ : state) {
    work(fixture, fixture.requests[next++ % fixture.requests.size()]);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}

void to_type(benchmark::State& state, const ResizeKernels& kernels, PixelType type) {
  const ChannelAffine affine = Normalisation{}.affine();
  for_each_request(state, [&](Fixture& fixture, const Resize& request) {
    resize(fixture.view(), request, affine, {fixture.out.data(), type, kSide, kSide}, kernels);
  });
}

void to_uint8(benchmark::State& state, const ResizeKernels& kernels) {
  for_each_request(state, [&](Fixture& fixture, const Resize& request) {
    resize_to_uint8(fixture.view(), request, reinterpret_cast<std::uint8_t*>(fixture.out.data()), kernels);
  });
}

void find_needed_box(benchmark::State& state) {
  for_each_request(state, [](Fixture&, const Resize& request) { benchmark::DoNotOptimize(needed(request)); });
}

void register_all() {
  benchmark::RegisterBenchmark("needed", find_needed_box);
  for (const ResizeKernels* kernels : usable_resize_kernels()) {
    const std::string name = kernels->name;
    benchmark::RegisterBenchmark((name + "/float32").c_str(), to_type, *kernels, PixelType::Float32);
    benchmark::RegisterBenchmark((name + "/bfloat16").c_str(), to_type, *kernels, PixelType::BFloat16);
    benchmark::RegisterBenchmark((name + "/levels").c_str(), to_uint8, *kernels);
  }
}

}  // namespace
}  // namespace rollcall::data

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  rollcall::data::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
