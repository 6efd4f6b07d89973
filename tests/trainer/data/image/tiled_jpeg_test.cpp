#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "tests/support/filled_tiles.h"
#include "tests/support/jpeg_kinds.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/jpeg/repack.h"

namespace rollcall::data {
namespace {

constexpr DecodeOptions kSplice{.dct_scaling = true, .own_entropy_decoder = false};
constexpr DecodeOptions kOwn{.dct_scaling = true};

EncodedImage encoded(const Repacked& repacked) { return {.bytes = repacked.jpeg, .tiling = repacked.tiling()}; }

Box twice_as_large(const Box& half, ImageSize size) {
  return {2 * half.left, 2 * half.top, std::min(2 * half.width, size.width - 2 * half.left),
          std::min(2 * half.height, size.height - 2 * half.top)};
}

class TiledJpegCrop : public testing::TestWithParam<test::JpegKind> {
 protected:
  std::mt19937 random_{static_cast<unsigned>(std::hash<std::string>{}(GetParam().name)) + 1};
};

INSTANTIATE_TEST_SUITE_P(OfEveryKind, TiledJpegCrop, testing::ValuesIn(test::repackable_kinds()),
                         [](const auto& kind) { return test::identifier(kind.param.name); });

TEST_P(TiledJpegCrop, OfAFileBeforeFormat11HasThePixelsOfTheOriginal) {
  ImageDecoder splice(kSplice);
  ImageDecoder own(kOwn);
  for (int i = 0; i < 8; ++i) {
    const ImageSize size = test::random_size(random_);
    const auto file = test::random_jpeg(GetParam(), size, random_);
    const test::RgbImage whole = test::plainly_decoded(file);
    const Repacked before = test::repacked_before_1_1(file);
    for (ImageDecoder* decoder : {&splice, &own}) {
      const auto opened = decoder->open(encoded(before));
      ASSERT_TRUE(opened) << opened.error().message();
      for (int k = 0; k < 12; ++k) {
        Box box = test::random_box(size, random_);
        box.left += k % 2 * (size.width - box.right());  // half of them at the edge
        const auto view = decoder->decode(box);
        ASSERT_TRUE(view) << view.error().message();
        ASSERT_EQ(test::copy_of(*view, box).pixels, test::cut_out(whole, box).pixels) << test::describe(size, box);
      }
    }
  }
}

TEST_P(TiledJpegCrop, HasThePixelsOfTheOriginalWithEitherEntropyDecoder) {
  ImageDecoder splice(kSplice);
  ImageDecoder own(kOwn);
  for (int i = 0; i < 10; ++i) {
    const ImageSize size = test::random_size(random_);
    const auto file = test::random_jpeg(GetParam(), size, random_);
    const test::RgbImage whole = test::plainly_decoded(file);
    const auto repacked = repack(file);
    ASSERT_TRUE(repacked) << repacked.error().message();
    for (ImageDecoder* decoder : {&splice, &own}) {
      const auto opened = decoder->open(encoded(*repacked));
      ASSERT_TRUE(opened) << opened.error().message();
      ASSERT_EQ(*opened, size);
      for (int k = 0; k < 14; ++k) {
        const Box box = test::random_box(size, random_);
        const auto view = decoder->decode(box);
        ASSERT_TRUE(view) << view.error().message();
        ASSERT_EQ(test::copy_of(*view, box).pixels, test::cut_out(whole, box).pixels)
            << (decoder == &own ? "own, " : "splice, ") << test::describe(size, box);
      }
    }
  }
}

TEST_P(TiledJpegCrop, AtHalfSizeHasThePixelsOfTheHalfSizeOriginal) {
  ImageDecoder splice(kSplice);
  ImageDecoder own(kOwn);
  for (int i = 0; i < 8; ++i) {
    const ImageSize size = test::random_size(random_);
    const auto file = test::random_jpeg(GetParam(), size, random_);
    const test::RgbImage whole = test::plainly_decoded(file, 4);
    const auto repacked = repack(file);
    ASSERT_TRUE(repacked);
    for (ImageDecoder* decoder : {&splice, &own}) {
      ASSERT_TRUE(decoder->open(encoded(*repacked)));
      for (int k = 0; k < 12; ++k) {
        const Box half = test::random_box({whole.width, whole.height}, random_);
        const Box box = twice_as_large(half, size);
        if (decoder->reduction_for(box, {1, 1}) == 2) {
          const auto view = decoder->decode(box, 2);
          ASSERT_TRUE(view) << view.error().message();
          ASSERT_EQ(test::copy_of(*view, half).pixels, test::cut_out(whole, half).pixels)
              << (decoder == &own ? "own, " : "splice, ") << test::describe(size, box);
        }
      }
    }
  }
}

/// A picture of 4 x 6 tiles.
Repacked some_tiles() {
  std::mt19937 random(2);
  return *repack(test::random_jpeg({"", {.factors = {{2, 2}, {1, 1}, {1, 1}}}}, {250, 90}, random));
}

TEST(TiledJpeg, ReadsOnlyTheTilesOfTheBox) {
  const Repacked intact = some_tiles();
  ImageDecoder decoder;
  ASSERT_TRUE(decoder.open(encoded(intact)));
  const Box box{70, 20, 40, 10};  // in the second column and row
  const test::RgbImage expected = test::copy_of(*decoder.decode(box), box);

  Repacked rest = intact;
  std::size_t at = rest.jpeg.size();
  for (std::size_t tile = rest.tile_bytes.size(); tile-- > 0;) {
    at -= rest.tile_bytes[tile];
    if (tile != 5) {
      std::fill_n(rest.jpeg.begin() + static_cast<std::ptrdiff_t>(at), rest.tile_bytes[tile], std::byte{0xff});
    }
  }
  for (const DecodeOptions& options : {kSplice, kOwn}) {
    ImageDecoder other(options);
    ASSERT_TRUE(other.open(encoded(rest)));
    const auto view = other.decode(box);
    ASSERT_TRUE(view) << view.error().message();
    EXPECT_EQ(test::copy_of(*view, box).pixels, expected.pixels);
    EXPECT_FALSE(other.decode({70, 20, 60, 10}));  // into the third column
  }
}

TEST(TiledJpeg, RejectsATilingThatDoesNotFitTheFile) {
  const Repacked good = some_tiles();
  const auto refused = [](const Repacked& repacked) {
    ImageDecoder decoder;
    const auto opened = decoder.open(encoded(repacked));
    return !opened && opened.error().kind == ErrorKind::BadData;
  };
  EXPECT_FALSE(refused(good));
  const auto with = [&](auto change) {
    Repacked changed = good;
    change(changed);
    return changed;
  };
  EXPECT_TRUE(refused(with([](Repacked& r) { r.tile_bytes.pop_back(); })));
  EXPECT_TRUE(refused(with([](Repacked& r) { r.tile_bytes.clear(); })));
  EXPECT_TRUE(refused(with([](Repacked& r) { r.tile_bytes.push_back(2); })));
  EXPECT_TRUE(refused(with([](Repacked& r) { ++r.tile_bytes[3]; })));
  for (const int too_few : {0, 1}) {  // a tile ends with a marker, of two bytes
    EXPECT_TRUE(refused(with([&](Repacked& r) {
      r.tile_bytes[3] = static_cast<std::uint16_t>(r.tile_bytes[3] + r.tile_bytes[2] - too_few);
      r.tile_bytes[2] = static_cast<std::uint16_t>(too_few);
    })));
  }
  EXPECT_TRUE(refused(with([](Repacked& r) { r.jpeg.pop_back(); })));
  EXPECT_TRUE(refused(with([](Repacked& r) { r.jpeg.push_back({}); })));
  EXPECT_TRUE(refused(with([](Repacked& r) { r.jpeg.clear(); })));
  for (const ImageSize size :
       {ImageSize{251, 90}, {250, 91}, {250, 89}, {192, 90}, {256, 90}, {0, 90}, {250, -1}, {1 << 30, 1 << 30}}) {
    EXPECT_TRUE(refused(with([&](Repacked& r) { r.size = size; }))) << size.width << " x " << size.height;
  }
}

TEST(TiledJpeg, RejectsAnOrdinaryFileWithATiling) {
  Repacked ordinary = some_tiles();
  ordinary.jpeg = test::make_jpeg(test::smooth_pixels(250, 90, 1), 250, 90);
  ImageDecoder decoder;
  EXPECT_FALSE(decoder.open(encoded(ordinary)));
  ordinary.jpeg = test::make_jpeg(test::smooth_pixels(250, 90, 1), 250, 90, {.progressive = true});
  EXPECT_FALSE(decoder.open(encoded(ordinary)));
}

TEST(TiledJpeg, RejectsEveryTruncation) {
  const Repacked good = some_tiles();
  ImageDecoder decoder;
  for (std::size_t bytes = 0; bytes < good.jpeg.size(); bytes += 13) {
    EXPECT_FALSE(decoder.open({.bytes = std::span(good.jpeg).first(bytes), .tiling = good.tiling()})) << bytes;
  }
}

/// Counts of the outcomes of decoding damaged files.
struct Outcomes {
  int same_pixels = 0;
  int other_pixels = 0;
  int refused = 0;
};

Outcomes decode_damaged(const Repacked& good, const DecodeOptions& options, std::size_t from, std::size_t to) {
  ImageDecoder decoder(options);
  const Box box{10, 5, 240, 80};
  EXPECT_TRUE(decoder.open(encoded(good)));
  const auto expected = test::copy_of(*decoder.decode(box), box).pixels;
  std::mt19937 random(17);
  Outcomes outcomes;
  for (int trial = 0; trial < 750; ++trial) {
    Repacked broken = good;
    for (int i = 0; i < 1 + trial % 4; ++i) {
      broken.jpeg[from + random() % (to - from)] ^= static_cast<std::byte>(1U << random() % 8);
    }
    const auto opened = decoder.open(encoded(broken));
    const auto view = opened ? decoder.decode(box) : opened.error();
    if (!view) {
      EXPECT_EQ(view.error().kind, ErrorKind::BadData);
      ++outcomes.refused;
    } else {
      ++(test::copy_of(*view, box).pixels == expected ? outcomes.same_pixels : outcomes.other_pixels);
    }
  }
  return outcomes;
}

TEST(TiledJpeg, RejectsAMarkerInsideATile) {
  const Repacked good = some_tiles();
  const auto begin = good.jpeg.end() - std::accumulate(good.tile_bytes.begin(), good.tile_bytes.end(), 0);
  const auto second = begin + good.tile_bytes[0];
  const auto third = second + good.tile_bytes[1];
  // Behind the first tile's data its marker and the third's data, so that they would be taken for the second's.
  std::vector<std::byte> added(second - 2, second);
  added.insert(added.end(), third, third + good.tile_bytes[2] - 2);
  Repacked broken = good;
  broken.jpeg.insert(broken.jpeg.begin() + (second - 2 - good.jpeg.begin()), added.begin(), added.end());
  broken.tile_bytes[0] = static_cast<std::uint16_t>(broken.tile_bytes[0] + added.size());
  for (const DecodeOptions& options : {kSplice, kOwn}) {
    ImageDecoder decoder(options);
    ASSERT_TRUE(decoder.open(encoded(broken)));
    const Box second_alone{70, 2, 40, 10};
    const Box first_and_second{10, 2, 100, 10};
    EXPECT_TRUE(decoder.decode(second_alone));
    EXPECT_FALSE(decoder.decode(first_and_second));
  }
}

TEST(TiledJpeg, DamagedHeaderNeverCrashes) {
  const Repacked good = some_tiles();
  const auto data = std::accumulate(good.tile_bytes.begin(), good.tile_bytes.end(), std::size_t{0});
  for (const DecodeOptions& options : {kSplice, kOwn}) {
    const Outcomes outcomes = decode_damaged(good, options, 0, good.jpeg.size() - data);
    EXPECT_GT(outcomes.refused, 250);
  }
}

#if !defined(ROLLCALL_LIBJPEG_ALONE)  // which is about what is not there then
TEST(TiledJpeg, OwnEntropyDecoderDetectsMostDamageToTiles) {
  const Repacked good = some_tiles();
  const auto data = std::accumulate(good.tile_bytes.begin(), good.tile_bytes.end(), std::size_t{0});
  const Outcomes splice = decode_damaged(good, kSplice, good.jpeg.size() - data, good.jpeg.size());
  const Outcomes own = decode_damaged(good, kOwn, good.jpeg.size() - data, good.jpeg.size());
  EXPECT_GT(splice.refused, 0);
  EXPECT_GT(own.refused, splice.refused);
  EXPECT_LT(own.other_pixels, splice.other_pixels);
}
#endif

}  // namespace
}  // namespace rollcall::data
