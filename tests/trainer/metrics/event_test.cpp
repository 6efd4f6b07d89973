#include "trainer/metrics/tensorboard/event.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "trainer/metrics/tensorboard/record_events.h"

namespace rollcall::metrics::tensorboard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// The expected bytes are those of tensorboard 2.21's own protocol buffers and of its RecordWriter.

TEST(Event, FramesTheFileVersionLikeTensorFlow) {
  EXPECT_EQ(framed(encode_file_version(1.5)),
            bytes_of("1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c"));
}

TEST(Event, FramesAnEmptyRecordWithLengthAndChecksums) {
  EXPECT_EQ(framed(""), bytes_of("000000000000000029039807d8ea82a2"));
}

TEST(Event, ScalarsAreSimpleValues) {
  EXPECT_EQ(encode_scalars({1.5, 300}, {{"a/loss", 0.1}, {"b", -2}}),
            bytes_of("09000000000000f83f10ac022a190a0d0a06612f6c6f737315cdcccc3d0a080a016215000000c0"));
}

TEST(Event, SessionStartHasItsStep) {
  EXPECT_EQ(encode_session_start({1.5, 8}), bytes_of("09000000000000f83f10083a020801"));
}

TEST(Event, EncodesTextAsAStringTensorForTheTextPlugin) {
  EXPECT_EQ(encode_text({1.5, 7}, "settings", "| a |\n"),
            bytes_of("09000000000000f83f10072a280a260a0873657474696e67734210080712041202080142067c2061207c0a4a080a060a0"
                     "474657874"));
}

TEST(Event, EncodesImagesWithSizeAndFile) {
  EXPECT_EQ(encode_image({1.5, 1}, "batch", 200, 3, "PNG..."),
            bytes_of("09000000000000f83f10012a1a0a180a056261746368220f080310c80118032206504e472e2e2e"));
}

TEST(Event, HistogramsArePackedDoubles) {
  const Histogram histogram{
      .min = -1, .max = 2, .count = 3, .sum = 1.5, .sum_of_squares = 5.25, .limits = {0, 2}, .counts = {1, 2}};
  EXPECT_EQ(encode_histograms({1.5, 1}, {{"weights/fc", histogram}}),
            bytes_of("09000000000000f83f10012a610a5f0a0a776569676874732f66632a5109000000000000f0bf110000000000000040190"
                     "00000000000084021000000000000f83f2900000000000015403210000000000000000000000000000000403a10000000"
                     "000000f03f0000000000000040"));
}

TEST(Histogram, ComputesTheSums) {
  const std::vector<float> values{1, -2, 0, 4};
  const Histogram histogram = histogram_of(values);
  EXPECT_EQ(histogram.min, -2);
  EXPECT_EQ(histogram.max, 4);
  EXPECT_EQ(histogram.count, 4);
  EXPECT_EQ(histogram.sum, 3);
  EXPECT_EQ(histogram.sum_of_squares, 21);
}

TEST(Histogram, UsesBucketsAtQuartersOfPowersOfTwo) {
  const std::vector<float> values{-1, -1.2F, 0, 1, 1.24F, 1.25F, 3.5F};
  const Histogram histogram = histogram_of(values);
  const double least = std::ldexp(1, -128);  // a quarter of the smallest normal number
  EXPECT_THAT(histogram.limits, ElementsAre(-1, 0, least, 1, 1.25, 1.5, 3.5, 4));
  EXPECT_THAT(histogram.counts, ElementsAre(2, 0, 1, 0, 2, 1, 0, 1));
}

TEST(Histogram, PutsEveryFiniteNumberIntoItsBucket) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float value : {-kLargest, -1e-8F, -1e-44F, -0.0F, 0.0F, 1e-44F, 0.3F, kLargest}) {
    const Histogram histogram = histogram_of({&value, 1});
    ASSERT_EQ(histogram.limits.size(), 1) << value;
    EXPECT_GE(histogram.limits[0], value);
    EXPECT_LE(histogram.limits[0], kLargest);
    EXPECT_LE(histogram.limits[0], value + std::abs(value) / 3 + 1e-38);
    EXPECT_EQ(histogram.counts[0], 1);
  }
}

TEST(Histogram, SkipsNonFiniteNumbers) {
  const std::vector<float> values{std::numeric_limits<float>::infinity(), std::nanf(""), 2};
  EXPECT_EQ(histogram_of(values).count, 1);
  EXPECT_EQ(histogram_of(values).sum, 2);
  EXPECT_EQ(histogram_of(std::span(values).first(2)).count, 0);
}

TEST(Png, IsAFileOfItsSize) {
  const std::vector<std::uint8_t> pixels(std::size_t{3} * 5 * 2, 7);
  const Result<std::string> png = encode_png(pixels, 5, 2);
  ASSERT_TRUE(png) << png.error().message();
  EXPECT_EQ(png->substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png->substr(16, 8), std::string("\0\0\0\5\0\0\0\2", 8));
}

TEST(Png, RejectsAnEmptyImage) { EXPECT_FALSE(encode_png({}, 0, 0)); }

Record step_record(double loss) {
  return {{"event", std::string("step")},
          {"step", std::int64_t{20}},
          {"epoch", std::int64_t{0}},
          {"loss", loss},
          {"top1", 0.25},
          {"images_per_second", 0.0},
          {"loss_scale", std::nan("")},
          {"time", 1.5}};
}

TEST(RecordEvents, StepGivesAPointOfEachKnownCurve) {
  EXPECT_THAT(events_of(step_record(0.5)),
              ElementsAre(encode_scalars({1.5, 20}, {{"training/loss", 0.5}, {"training/top1", 0.25}})));
}

TEST(RecordEvents, GpuReadingsGiveACurveEach) {
  const Record record{{"event", std::string("step")},
                      {"step", std::int64_t{20}},
                      {"gpu_load", 0.5},
                      {"gpu_memory_mib", 1024.0},
                      {"gpu_watts", 700.0},
                      {"images_per_joule", 2.5},
                      {"gpu_memory_total_mib", 2048.0},
                      {"time", 1.5}};
  EXPECT_THAT(events_of(record),
              ElementsAre(encode_scalars(
                  {1.5, 20},
                  {{"speed/images_per_joule", 2.5}, {"gpu/load", 0.5}, {"gpu/memory_mib", 1024}, {"gpu/watts", 700}})));
}

TEST(RecordEvents, NullValuesGiveNoPoint) {
  EXPECT_THAT(events_of(step_record(std::nan(""))), ElementsAre(encode_scalars({1.5, 20}, {{"training/top1", 0.25}})));
}

TEST(RecordEvents, ValidationGivesItsOwnCurves) {
  const Record record{{"event", std::string("validation")}, {"step", std::int64_t{8}}, {"loss", 2.0}, {"time", 1.5}};
  EXPECT_THAT(events_of(record), ElementsAre(encode_scalars({1.5, 8}, {{"validation/loss", 2}})));
}

TEST(RecordEvents, StartDropsLaterStepsAndShowsTheSettings) {
  const Record record{{"event", std::string("begin")},
                      {"step", std::int64_t{7}},
                      {"settings", RawJson{R"({"lr":{"value":"0.1","origin":"--lr"}})"}},
                      {"time", 1.5}};
  const std::string table = "| setting | value | origin |\n|---|---|---|\n| `lr` | `0.1` | `--lr` |\n";
  EXPECT_THAT(events_of(record), ElementsAre(encode_session_start({1.5, 8}), encode_text({1.5, 7}, "settings", table),
                                             encode_hyperparameters({1.5, 7}, {{"lr", "0.1"}})));
}

TEST(RecordEvents, OtherRecordsGiveNoEvents) {
  EXPECT_THAT(events_of({{"event", std::string("epoch")}, {"step", std::int64_t{8}}, {"loss", 2.0}}), ElementsAre());
  EXPECT_THAT(events_of({}), ElementsAre());
}

TEST(SettingsTable, EscapesValuesForMarkdown) {
  const std::string table = settings_table(
      R"({"a":{"value":"x|<b>","origin":""},"b":{"value":"`t``s","origin":"l\nm"},"c":{"value":3},"d":"text"})");
  EXPECT_THAT(table, HasSubstr("| `a` | `x|<b>` |  |\n"));
  EXPECT_THAT(table, HasSubstr("| `b` | ``` `t``s ``` | `l m` |\n"));
  EXPECT_THAT(table, HasSubstr("| `c` | `3` |  |\n"));
  EXPECT_THAT(settings_table("[1,"), Not(HasSubstr("`")));
}

}  // namespace
}  // namespace rollcall::metrics::tensorboard
