#include <gtest/gtest.h>
#include <random>

#include "tests/support/jpeg_kinds.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/jpeg/jpeg_file.h"

namespace rollcall::data {
namespace {

using Bytes = std::vector<std::byte>;

/// 4:2:0, 10 x 8 MCUs of noise.
Bytes picture(int restart_interval, unsigned seed = 3) {
  std::mt19937 random(seed);
  const test::JpegStyle style{.factors = {{2, 2}, {1, 1}, {1, 1}}, .restart_interval = restart_interval};
  return test::random_jpeg({"", style}, {160, 128}, random);
}

/// The offset of the n-th marker `code` behind the scan's header.
std::size_t marker_at(const Bytes& file, std::uint8_t code, int n = 0) {
  const std::array scan{std::byte{0xff}, std::byte{0xda}};
  const std::array marker{std::byte{0xff}, std::byte{code}};
  auto at = std::search(file.begin(), file.end(), scan.begin(), scan.end());
  do {
    at = std::search(at + 2, file.end(), marker.begin(), marker.end());
  } while (n-- > 0);
  return static_cast<std::size_t>(at - file.begin());
}

Bytes with_inserted(Bytes file, std::size_t at, std::initializer_list<std::uint8_t> added) {
  const auto* begin = reinterpret_cast<const std::byte*>(added.begin());
  file.insert(file.begin() + static_cast<std::ptrdiff_t>(at), begin, begin + added.size());
  return file;
}

enum class Outcome { Refused, SamePixels, OtherPixels };

/// The outcome of decoding a file down to a row, compared with `good`.
Outcome outcome(const Bytes& file, const Bytes& good, bool own, int rows = 128) {
  ImageDecoder decoder({.own_entropy_decoder = own});
  const Box box{0, 0, 160, rows};
  if (!decoder.open({.bytes = file})) {
    return Outcome::Refused;
  }
  const auto view = decoder.decode(box);
  if (!view) {
    EXPECT_EQ(view.error().kind, ErrorKind::BadData);
    return Outcome::Refused;
  }
  const bool same = test::copy_of(*view, box).pixels == test::cut_out(test::plainly_decoded(good), box).pixels;
  return same ? Outcome::SamePixels : Outcome::OtherPixels;
}

TEST(SequentialEntropyDecoder, IsUsedForSingleScanHuffmanSequentialFiles) {
  std::mt19937 random(1);
  for (const test::JpegKind& kind : test::jpeg_kinds()) {
    const auto file = test::random_jpeg(kind, {60, 50}, random);
    JpegFile jpeg(true);
    ReusableBuffer pixels;
    ASSERT_TRUE(jpeg.open(file));
    ASSERT_TRUE(jpeg.decode({10, 10, 20, 20}, 1, pixels));
    EXPECT_EQ(jpeg.used_own(), !kind.style.progressive && !kind.style.arithmetic && !kind.style.one_scan_a_component)
        << kind.name;
  }
}

TEST(SequentialEntropyDecoder, AcceptsFillBytesBeforeMarkersAndForeignBytesAtTheEnd) {
  const Bytes good = picture(6);
  for (const bool own : {true, false}) {
    EXPECT_EQ(outcome(good, good, own), Outcome::SamePixels);
    EXPECT_EQ(outcome(with_inserted(good, marker_at(good, 0xd1), {0xff, 0xff}), good, own), Outcome::SamePixels);
    EXPECT_EQ(outcome(with_inserted(good, marker_at(good, 0xd9), {0xff}), good, own), Outcome::SamePixels);
    EXPECT_EQ(outcome(with_inserted(good, good.size(), {1, 2, 3}), good, own), Outcome::SamePixels);
    const Bytes more = with_inserted(good, marker_at(good, 0xd9), {1, 2, 3, 4, 0xff, 0, 6, 7, 8, 9});
    EXPECT_EQ(outcome(more, good, own), Outcome::SamePixels);
    Bytes long_tail = good;
    long_tail.insert(long_tail.begin() + static_cast<std::ptrdiff_t>(marker_at(good, 0xd9)), 100'000, std::byte{0});
    EXPECT_EQ(outcome(long_tail, good, own), Outcome::SamePixels);
  }
}

TEST(SequentialEntropyDecoder, RejectsMissingWrongOrLateRestartMarkers) {
  const Bytes good = picture(6);
  const std::size_t second = marker_at(good, 0xd1);
  Bytes wrong = good;
  wrong[second + 1] = std::byte{0xd2};
  Bytes missing = good;
  missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(second),
                missing.begin() + static_cast<std::ptrdiff_t>(second) + 2);
  const Bytes late = with_inserted(good, second, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const Bytes twice = with_inserted(good, second, {0xff, 0xd1});
  for (const Bytes& damaged : {wrong, missing, late, twice}) {
    for (const bool own : {true, false}) {
      EXPECT_EQ(outcome(damaged, good, own), Outcome::Refused) << damaged.size() << own;
    }
  }
}

TEST(SequentialEntropyDecoder, DetectsDamageBelowTheLastRequestedRow) {
  const Bytes good = picture(10);  // a row
  Bytes wrong = good;
  wrong[marker_at(good, 0xd6) + 1] = std::byte{0xd3};
  for (const bool own : {true, false}) {
    for (const int rows : {1, 64, 112, 128}) {
      EXPECT_EQ(outcome(good, good, own, rows), Outcome::SamePixels);
      EXPECT_EQ(outcome(wrong, good, own, rows), Outcome::Refused) << rows;
    }
  }
}

TEST(SequentialEntropyDecoder, RejectsAMarkerInsideTheData) {
  const Bytes good = picture(0);
  const std::size_t end = marker_at(good, 0xd9);
  for (const bool own : {true, false}) {
    EXPECT_EQ(outcome(with_inserted(good, end - 2000, {0xff, 0xd0}), good, own), Outcome::Refused);
    EXPECT_EQ(outcome(with_inserted(good, end - 2000, {0xff, 0xc4}), good, own), Outcome::Refused);
  }
}

// Bytes after the data are accepted only if the last byte is padded with ones; otherwise flipped bits left them over.
TEST(SequentialEntropyDecoder, RejectsDataLeftOverWithinAByte) {
  int tried = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    const Bytes good = picture(0, seed);
    const std::size_t end = marker_at(good, 0xd9);
    Bytes within = good;
    within[end - 1] ^= std::byte{1};
    if (outcome(within, good, true) != Outcome::SamePixels) {  // a code's bit, not one that fills up
      continue;
    }
    ++tried;
    for (const bool own : {true, false}) {
      EXPECT_EQ(outcome(within, good, own), Outcome::SamePixels);
      EXPECT_EQ(outcome(with_inserted(good, end, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), good, own), Outcome::SamePixels);
      EXPECT_EQ(outcome(with_inserted(within, end, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), good, own), Outcome::Refused);
    }
  }
  EXPECT_GT(tried, 3);
}

TEST(SequentialEntropyDecoder, RejectsEveryTruncation) {
  for (const int interval : {0, 1, 10}) {
    const Bytes good = picture(interval);
    for (std::size_t bytes = good.size() - 2; bytes > 100; bytes -= std::min<std::size_t>(bytes, 97)) {
      const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes));
      EXPECT_EQ(outcome(cut, good, true), Outcome::Refused) << bytes;
    }
  }
}

TEST(SequentialEntropyDecoder, RejectsDataWithoutItsLastBytes) {
  const Bytes good = picture(0);
  const auto end = good.begin() + static_cast<std::ptrdiff_t>(marker_at(good, 0xd9));
  for (const int lacking : {8, 20, 50, 100, 200, 400}) {  // the zeros behind them are valid codes, too
    Bytes cut(good.begin(), end - lacking);
    cut.insert(cut.end(), end, good.end());
    EXPECT_EQ(outcome(cut, good, true), Outcome::Refused) << lacking;
  }
}

// Flipped bits often give another valid stream: what libjpeg accepts must give the same pixels.
TEST(SequentialEntropyDecoder, DamagedFilesAreRejectedOrMatchLibjpeg) {
  std::mt19937 random(9);
  int refused = 0;
  int decoded = 0;
  for (const int interval : {0, 1, 7}) {
    const Bytes good = picture(interval, 5);
    ImageDecoder own;
    ImageDecoder libjpegs({.own_entropy_decoder = false});
    for (int trial = 0; trial < 350; ++trial) {
      Bytes broken = good;
      for (int i = 0; i < 1 + trial % 3; ++i) {
        broken[600 + random() % (broken.size() - 600)] ^= static_cast<std::byte>(1U << random() % 8);
      }
      const Box box = test::random_box({160, 128}, random);
      ASSERT_EQ(own.open({.bytes = broken}).has_value(), libjpegs.open({.bytes = broken}).has_value());
      const auto view = own.decode(box);
      const auto expected = libjpegs.decode(box);
      if (view && expected) {
        ASSERT_EQ(test::copy_of(*view, box).pixels, test::copy_of(*expected, box).pixels) << trial;
      }
      const Box other = test::random_box({160, 128}, random);
      ASSERT_EQ(own.decode(other).has_value(), view.has_value()) << "whatever is wanted of it, " << trial;
      ASSERT_EQ(libjpegs.decode(other).has_value(), expected.has_value()) << "whatever is wanted of it, " << trial;
      ++(view ? decoded : refused);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(decoded, 100);
}

}  // namespace
}  // namespace rollcall::data
