// Linked with trainer/data/jpeg/entropy_decoder.cpp as it is compiled without trainer/data/jpeg/entropy. That
// everything is decoded to the same pixels then is shown by the tests of unit/image that this program holds as well.
#include <gtest/gtest.h>
#include <random>

#include "tests/support/jpeg_kinds.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/jpeg_file.h"

namespace rollcall::data {
namespace {

TEST(LibjpegAlone, ProvidesNoOwnEntropyDecoder) {
  EXPECT_FALSE(own_entropy_decoder_works());
  EXPECT_EQ(make_tile_entropy_decoder(), nullptr);
  EXPECT_EQ(make_sequential_entropy_decoder(), nullptr);
}

TEST(LibjpegAlone, DecodesEveryKindOfJpegEvenIfTheOwnDecoderIsRequested) {
  std::mt19937 random(1);
  for (const test::JpegKind& kind : test::jpeg_kinds()) {
    const auto file = test::random_jpeg(kind, {60, 50}, random);
    JpegFile jpeg(true);
    ReusableBuffer pixels;
    ASSERT_TRUE(jpeg.open(file)) << kind.name;
    const Box box{10, 10, 20, 20};
    const auto view = jpeg.decode(box, 1, pixels);
    ASSERT_TRUE(view) << kind.name;
    EXPECT_FALSE(jpeg.used_own()) << kind.name;
    EXPECT_EQ(test::copy_of(*view, box).pixels, test::cut_out(test::plainly_decoded(file), box).pixels) << kind.name;
  }
}

}  // namespace
}  // namespace rollcall::data
