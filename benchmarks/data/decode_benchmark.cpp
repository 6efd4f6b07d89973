// What decoding a random crop of a JPEG costs, stage by stage: full decode, crop, repacked with libjpeg's entropy
// decoder (splice) and with ours; originals too with libjpeg's and with ours. On the .jpg files of the folder that
// ROLLCALL_BENCHMARK_IMAGES names, else on generated ones.
#include <benchmark/benchmark.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "benchmarks/data/needed_tiles.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/repack.h"
#include "trainer/data/jpeg/tiles.h"

namespace rollcall::data {
namespace {

constexpr int kWidth = 500;
constexpr int kHeight = 375;
constexpr int kGenerated = 32;
constexpr std::size_t kMostFiles = 500;

struct Sample {
  std::vector<std::byte> jpeg;
  Repacked repacked;
  Box whole = {};
  Box crop = {};
};

/// Noise that falls off towards high frequencies as in photos: octaves of interpolated random values.
std::vector<std::uint8_t> photo_like_pixels(std::mt19937& random) {
  std::vector<float> levels(std::size_t{kWidth} * kHeight * 3, 128.0F);
  for (int cell = 128; cell >= 1; cell /= 2) {
    const int columns = kWidth / cell + 2;
    std::vector<float> grid(static_cast<std::size_t>(columns * (kHeight / cell + 2)) * 3);
    std::normal_distribution<float> noise(0.0F, cell == 1 ? 4.0F : 5.0F * std::sqrt(static_cast<float>(cell)));
    std::generate(grid.begin(), grid.end(), [&] { return noise(random); });
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        const float fx = static_cast<float>(x % cell) / static_cast<float>(cell);
        const float fy = static_cast<float>(y % cell) / static_cast<float>(cell);
        for (int c = 0; c < 3; ++c) {
          const auto at = [&](int column, int row) {
            return grid[static_cast<std::size_t>((row * columns + column) * 3 + (cell < 8 ? 0 : c))];
          };
          const int left = x / cell;
          const int top = y / cell;
          levels[static_cast<std::size_t>((y * kWidth + x) * 3 + c)] +=
              (at(left, top) * (1 - fx) + at(left + 1, top) * fx) * (1 - fy) +
              (at(left, top + 1) * (1 - fx) + at(left + 1, top + 1) * fx) * fy;
        }
      }
    }
  }
  std::vector<std::uint8_t> pixels(levels.size());
  std::transform(levels.begin(), levels.end(), pixels.begin(),
                 [](float level) { return static_cast<std::uint8_t>(std::clamp(level, 0.0F, 255.0F)); });
  return pixels;
}

std::vector<std::byte> compressed(const std::vector<std::uint8_t>& pixels) {
  jpeg_compress_struct libjpeg{};
  jpeg_error_mgr errors{};
  libjpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&libjpeg);
  unsigned char* buffer = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&libjpeg, &buffer, &bytes);
  libjpeg.image_width = kWidth;
  libjpeg.image_height = kHeight;
  libjpeg.input_components = 3;
  libjpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&libjpeg);
  jpeg_set_quality(&libjpeg, 90, TRUE);
  jpeg_start_compress(&libjpeg, TRUE);
  for (std::size_t y = 0; y < kHeight; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + y * kWidth * 3);
    jpeg_write_scanlines(&libjpeg, &row, 1);
  }
  jpeg_finish_compress(&libjpeg);
  jpeg_destroy_compress(&libjpeg);
  const auto* begin = reinterpret_cast<const std::byte*>(buffer);
  std::vector<std::byte> file(begin, begin + bytes);
  std::free(buffer);
  return file;
}

std::vector<std::byte> content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

std::vector<std::vector<std::byte>> files() {
  std::vector<std::vector<std::byte>> all;
  std::mt19937 random(1);
  const char* folder = std::getenv("ROLLCALL_BENCHMARK_IMAGES");
  if (folder == nullptr) {
    for (int i = 0; i < kGenerated; ++i) {
      all.push_back(compressed(photo_like_pixels(random)));
    }
    return all;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".jpg") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  paths.resize(std::min(paths.size(), kMostFiles));
  std::transform(paths.begin(), paths.end(), std::back_inserter(all), content_of);
  return all;
}

/// As RandomResizedCrop chooses it.
Box random_crop(ImageSize size, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform;
  for (;;) {
    const double area = size.width * static_cast<double>(size.height) * (0.08 + 0.92 * uniform(random));
    const double ratio = std::exp(std::log(3.0 / 4) + uniform(random) * 2 * std::log(4.0 / 3));
    const int width = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const int height = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (width > 0 && width <= size.width && height > 0 && height <= size.height) {
      return {static_cast<int>(random() % static_cast<unsigned>(size.width - width + 1)),
              static_cast<int>(random() % static_cast<unsigned>(size.height - height + 1)), width, height};
    }
  }
}

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = [] {
    std::vector<Sample> made;
    std::mt19937 random(2);
    for (std::vector<std::byte>& file : files()) {
      if (Result<Repacked> repacked = repack(file); repacked) {
        const ImageSize size = repacked->size;
        made.push_back(
            {std::move(file), *std::move(repacked), {0, 0, size.width, size.height}, random_crop(size, random)});
      }
    }
    return made;
  }();
  return all;
}

enum class Part { Whole, Crop };
enum class Source { Original, OriginalByLibjpeg, Splice, Own };

void decode(benchmark::State& state, Source source, Part part) {
  ImageDecoder decoder(DecodeOptions{.own_entropy_decoder = source == Source::Own || source == Source::Original});
  const bool is_original = source == Source::Original || source == Source::OriginalByLibjpeg;
  std::size_t next = 0;
  std::size_t bytes = 0;
  const std::vector<Sample>& all = samples();  // made before the clock runs
  for (auto _ : state) {
    const Sample& sample = all[next++ % all.size()];
    const EncodedImage original{.bytes = sample.jpeg};
    const EncodedImage repacked{.bytes = sample.repacked.jpeg, .tiling = sample.repacked.tiling()};
    const bool opened = decoder.open(is_original ? original : repacked).has_value();
    const Result<PixelView> view = decoder.decode(part == Part::Crop ? sample.crop : sample.whole);
    if (!opened || !view) {
      state.SkipWithError("cannot be decoded");
      break;
    }
    benchmark::DoNotOptimize(view->pixels);
    bytes += sample.jpeg.size();
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["file_KB"] = static_cast<double>(bytes) / static_cast<double>(state.iterations()) / 1000;
}

/// Only to find the tiles that a crop needs and to put them together.
void splice_only(benchmark::State& state) {
  ReusableBuffer memory;
  TileGrid grid;
  std::size_t next = 0;
  for (auto _ : state) {
    const Sample& sample = samples()[next++ % samples().size()];
    const bool read = read_tile_grid(sample.repacked.jpeg, sample.repacked.tiling(), grid).has_value();
    benchmark::DoNotOptimize(read);
    benchmark::DoNotOptimize(splice(sample.repacked.jpeg, grid, grid.tiles_for(sample.crop, 1), memory).data());
  }
}

/// Only to find the tiles that a crop needs and to take the stuffed zeros out of them.
void unstuff_only(benchmark::State& state) {
  const std::unique_ptr<TileEntropyDecoder> decoder = make_tile_entropy_decoder();
  TileGrid grid;
  std::size_t next = 0;
  for (auto _ : state) {
    const Sample& sample = samples()[next++ % samples().size()];
    const bool read = read_tile_grid(sample.repacked.jpeg, sample.repacked.tiling(), grid).has_value();
    benchmark::DoNotOptimize(read);
    benchmark::DoNotOptimize(decoder->read_tiles(sample.repacked.jpeg, grid, grid.tiles_for(sample.crop, 1)));
  }
}

/// Only the entropy decoding of the tiles that a crop needs.
void entropy_only(benchmark::State& state) {
  NeededTiles tiles;
  std::size_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const Sample& sample = samples()[next++ % samples().size()];
    tiles.prepare(sample.repacked, sample.crop);
    state.ResumeTiming();
    benchmark::DoNotOptimize(tiles.decode());
  }
}

void repack_whole(benchmark::State& state) {
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(repack(samples()[next++ % samples().size()].jpeg).has_value());
  }
}

BENCHMARK_CAPTURE(decode, original_full_libjpeg, Source::OriginalByLibjpeg, Part::Whole)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, original_full, Source::Original, Part::Whole)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, original_crop_libjpeg, Source::OriginalByLibjpeg, Part::Crop)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, original_crop, Source::Original, Part::Crop)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, splice_full, Source::Splice, Part::Whole)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, splice_crop, Source::Splice, Part::Crop)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, own_full, Source::Own, Part::Whole)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, own_crop, Source::Own, Part::Crop)->Unit(benchmark::kMicrosecond);
BENCHMARK(splice_only)->Unit(benchmark::kMicrosecond);
BENCHMARK(unstuff_only)->Unit(benchmark::kMicrosecond);
BENCHMARK(entropy_only)->Unit(benchmark::kMicrosecond);
BENCHMARK(repack_whole)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rollcall::data

BENCHMARK_MAIN();
