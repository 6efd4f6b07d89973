#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/trainer/tools/pack/image_tree.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/data/sources/packed_file.h"

namespace rollcall::pack {
namespace {

using data::FetchBuffer;
using data::ImageDecoder;
using data::ImageSource;
using test::Ended;
using test::pack;
using test::TemporaryFolder;
using testing::HasSubstr;
using testing::IsEmpty;

std::shared_ptr<const ImageSource> open(const std::string& path) {
  auto source = data::PackedSource::open(path);
  EXPECT_TRUE(source) << source.error().message();
  return source ? *source : nullptr;
}

Result<data::ImageTree> scanned(const std::string& path) {
  data::SourceIndices indices;
  return data::scan_image_tree(path, indices);
}

nlohmann::json report_of(const Ended& ended) {
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  return nlohmann::json::parse(ended.out)["files"][0];
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : test::fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The picture's pixels, three bytes each.
std::vector<std::uint8_t> pixels_of(ImageDecoder& decoder, const data::EncodedImage& image) {
  const auto size = decoder.open(image);
  EXPECT_TRUE(size) << size.error().message();
  const auto view = decoder.decode({0, 0, size->width, size->height});
  EXPECT_TRUE(view) << view.error().message();
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < size->height; ++y) {
    for (int x = 0; x < size->width; ++x) {
      pixels.insert(pixels.end(), view->at(x, y), view->at(x, y) + 3);
    }
  }
  return pixels;
}

TEST(Pack, KeepsBytesOrderLabelsAndNames) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  ASSERT_EQ(pack({folder.file("tree"), folder.file("a.h5")}).exit_code, 0);
  const auto tree = scanned(folder.file("tree"));
  const data::ImageFolder files(*tree);
  const auto packed = open(folder.file("a.h5"));
  ASSERT_EQ(packed->size(), files.size());
  EXPECT_EQ(packed->class_names(), files.class_names());
  FetchBuffer one;
  FetchBuffer other;
  for (std::int64_t i = 0; i < files.size(); ++i) {
    const auto expected = files.fetch(i, one);
    const auto sample = packed->fetch(i, other);
    ASSERT_TRUE(sample) << sample.error().message();
    EXPECT_TRUE(std::ranges::equal(sample->image.bytes, expected->image.bytes));
    EXPECT_EQ(sample->label, expected->label);
    EXPECT_FALSE(sample->image.tiling);
    EXPECT_EQ(packed->describe(i), folder.file("a.h5") + ": " + std::string(tree->name(static_cast<std::size_t>(i))));
  }
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("a.h5", "tree"));
}

TEST(Pack, OutputDoesNotDependOnTheNumberOfThreads) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  for (const char* threads : {"1", "3", "8"}) {
    ASSERT_EQ(pack({"--repack", std::string("--num-workers=") + threads, folder.file("tree"),
                    folder.file(std::string(threads) + ".h5")})
                  .exit_code,
              0);
  }
  const auto one = test::content_of_file(folder.file("1.h5"));
  EXPECT_EQ(test::content_of_file(folder.file("3.h5")), one);
  EXPECT_EQ(test::content_of_file(folder.file("8.h5")), one);
}

TEST(Pack, RepackKeepsPixelsOfJpegsAndBytesOfOtherFiles) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  const auto report = report_of(pack({"--repack", "--json", folder.file("tree"), folder.file("a.h5")}));
  EXPECT_EQ(report["repacked"], 8);
  ASSERT_EQ(report["not_repacked"].size(), 1U);
  EXPECT_EQ(report["not_repacked"].begin().key(), "is not a JPEG file");
  const auto packed = open(folder.file("a.h5"));
  const data::ImageFolder files(*scanned(folder.file("tree")));
  ImageDecoder decoder;
  FetchBuffer one;
  FetchBuffer other;
  int tiled = 0;
  for (std::int64_t i = 0; i < files.size(); ++i) {
    const auto sample = packed->fetch(i, other);
    ASSERT_TRUE(sample);
    tiled += sample->image.tiling ? 1 : 0;
    EXPECT_EQ(pixels_of(decoder, sample->image), pixels_of(decoder, files.fetch(i, one)->image));
  }
  EXPECT_EQ(tiled, 8);
}

TEST(Pack, ResizesTheShorterSideOfLargeImagesOnly) {
  const TemporaryFolder folder;
  test::put(folder.file("tree/a/large.jpg"), test::small_jpeg(300, 201, 1));
  test::put(folder.file("tree/a/small.jpg"), test::small_jpeg(100, 500, 2));
  test::put(folder.file("tree/a/wide.png"), test::small_png(402, 150, 3));
  for (const char* repack : {"--repack=off", "--repack=on"}) {
    const auto report =
        report_of(pack({repack, "--overwrite", "--resize=100", "--json", folder.file("tree"), folder.file("a.h5")}));
    EXPECT_EQ(report["resized"], 2);
    const auto packed = open(folder.file("a.h5"));
    ImageDecoder decoder;
    FetchBuffer buffer;
    EXPECT_EQ(*decoder.open(packed->fetch(0, buffer)->image), (data::ImageSize{149, 100}));
    EXPECT_EQ(*decoder.open(packed->fetch(1, buffer)->image), (data::ImageSize{100, 500}));
    EXPECT_EQ(*decoder.open(packed->fetch(2, buffer)->image), (data::ImageSize{268, 100}));
  }
}

TEST(Pack, ResizeKeepsTheColours) {
  const TemporaryFolder folder;
  test::put(folder.file("tree/a/1.png"), test::make_png(std::vector<std::uint8_t>(300 * 300 * 3, 77).data(), 300, 300));
  ASSERT_EQ(pack({"--resize=50", folder.file("tree"), folder.file("a.h5")}).exit_code, 0);
  ImageDecoder decoder;
  FetchBuffer buffer;
  const auto pixels = pixels_of(decoder, open(folder.file("a.h5"))->fetch(0, buffer)->image);
  ASSERT_EQ(pixels.size(), 50U * 50 * 3);
  EXPECT_THAT(pixels, testing::Each(testing::AllOf(testing::Ge(75), testing::Le(79))));
}

TEST(Pack, KeepsTheOrientationOfResizedAndRepackedImages) {
  const TemporaryFolder folder;
  constexpr std::string_view kExif{"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 32};
  const auto bytes = std::as_bytes(std::span(kExif));
  const auto jpeg = test::make_jpeg(test::smooth_pixels(90, 60, 4), 90, 60, {.exif = {bytes.begin(), bytes.end()}});
  test::put(folder.file("tree/a/1.jpg"), jpeg);
  for (const std::string option : {"--repack=off", "--repack", "--resize=30"}) {
    ASSERT_EQ(pack({"--overwrite", option, folder.file("tree"), folder.file("a.h5")}).exit_code, 0);
    FetchBuffer buffer;
    ImageDecoder upright({.apply_orientation = true});
    const auto size = upright.open(open(folder.file("a.h5"))->fetch(0, buffer)->image);
    ASSERT_TRUE(size) << option << size.error().message();
    EXPECT_GT(size->height, size->width) << option;
    EXPECT_EQ(data::PackedFile::open(folder.file("a.h5"))->entries()[0].orientation, 6) << option;
  }
}

TEST(Pack, PacksTrainAndValIntoTwoFiles) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree/train"));
  test::make_tree(folder.file("tree/val"));
  const Ended ended = pack({folder.file("tree"), folder.file("new/folder")});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(names_in(folder.file("new/folder")), testing::ElementsAre("train.h5", "val.h5"));
  test::fs::remove(folder.file("tree/val/cat/0.jpg"));
  ASSERT_EQ(pack({folder.file("tree"), folder.file("fewer")}).exit_code, 0);
  EXPECT_EQ(open(folder.file("fewer/train.h5"))->size(), 9);
  EXPECT_EQ(open(folder.file("fewer/val.h5"))->size(), 8);
  test::fs::remove_all(folder.file("tree/val/zebra"));
  const Ended differing = pack({folder.file("tree"), folder.file("other")});
  EXPECT_EQ(differing.exit_code, 65);
  EXPECT_THAT(differing.err, HasSubstr("its class folders differ from those of train"));
}

TEST(Pack, WarnsAboutSkippedFilesAndRejectsMisnamedParts) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  const Ended silent = pack({folder.file("tree"), folder.file("a.h5")});
  EXPECT_THAT(silent.err, testing::Not(HasSubstr("left out")));
  test::fs::copy_file(folder.file("tree/cat/0.jpg"), folder.file("tree/cat/9.heic"));
  const Ended ended = pack({folder.file("tree"), folder.file("b.h5")});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("rollcall: warning: --data: " + folder.file("tree")));
  EXPECT_THAT(ended.err, HasSubstr("are left out, 1: 1 .heic (such as cat/9.heic)"));
  test::make_tree(folder.file("parts/Train"));
  test::make_tree(folder.file("parts/Val"));
  const Ended refused = pack({folder.file("parts"), folder.file("c.h5")});
  EXPECT_EQ(refused.exit_code, 66);
  EXPECT_THAT(refused.err, HasSubstr("parts: holds Train and Val, which must be named train and val"));
}

TEST(Pack, ReportsImagesClassesBytesAndInodes) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  const auto report = report_of(pack({"--json", folder.file("tree"), folder.file("a.h5")}));
  EXPECT_EQ(report["images"], 9);
  EXPECT_EQ(report["classes"], 3);
  EXPECT_EQ(report["inodes_in"], 9 + 5);  // tree, cat, hühner, hühner/a b, zebra
  EXPECT_EQ(report["bytes_out"], test::fs::file_size(folder.file("a.h5")));
  EXPECT_GT(report["bytes_in"], 1000);
  const Ended text = pack({"--overwrite", folder.file("tree"), folder.file("a.h5")});
  EXPECT_THAT(text.out, HasSubstr("9 in 3 classes"));
  EXPECT_THAT(text.out, HasSubstr("14 before, 1 now: 13 fewer in a quota that counts files"));
}

/// Bad files as found in real datasets: empty files, error pages, truncated downloads, dangling links, bombs.
std::vector<std::string> add_bad_files(const std::string& root) {
  test::put_text(root + "/cat/5-empty.jpg", "");
  test::put_text(root + "/cat/6-page.jpg", "<html><body>404</body></html>");
  auto cut = test::small_jpeg(200, 200, 7);
  cut.resize(cut.size() / 2);
  test::put(root + "/cat/7-cut.jpg", cut);
  test::fs::create_symlink("nowhere", root + "/cat/8-dangling.jpg");
  auto bomb = test::small_png(8, 8, 1);
  bomb[18] = std::byte{0xff};  // the width in IHDR; its checksum is wrong then too
  test::put(root + "/cat/9-bomb.png", bomb);
  return {"cat/5-empty.jpg", "cat/6-page.jpg", "cat/7-cut.jpg", "cat/8-dangling.jpg", "cat/9-bomb.png"};
}

TEST(Pack, FailsOnABadFileAndNamesIt) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  add_bad_files(folder.file("tree"));
  const Ended ended = pack({folder.file("tree"), folder.file("a.h5")});
  EXPECT_EQ(ended.exit_code, 65);
  EXPECT_THAT(ended.err, HasSubstr("cat/5-empty.jpg: is empty"));
  EXPECT_THAT(ended.err, HasSubstr("--bad-samples=skip"));
  EXPECT_FALSE(test::fs::exists(folder.file("a.h5")));
}

TEST(Pack, SkipsAndListsBadFilesOnRequest) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  const auto bad = add_bad_files(folder.file("tree"));
  const std::vector<std::string> arguments{"--bad-samples=skip", "--json", folder.file("tree"), folder.file("a.h5")};
  EXPECT_EQ(pack({folder.file("tree"), folder.file("a.h5")}).exit_code, 65);
  const auto report = report_of(pack(arguments));  // goes on where the other one failed
  EXPECT_EQ(report["from_earlier_run"], 4);
  std::vector<std::string> named;
  for (const auto& file : report["bad"]) {
    named.push_back(file["name"]);
    EXPECT_NE(file["reason"], "");
  }
  EXPECT_EQ(named, bad);
  EXPECT_EQ(open(folder.file("a.h5"))->size(), 9);
}

TEST(Pack, ReportsClassesWithoutUsableFiles) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  test::put_text(folder.file("tree/yak/1.jpg"), "no picture");
  const auto report = report_of(pack({"--bad-samples=skip", "--json", folder.file("tree"), folder.file("a.h5")}));
  EXPECT_EQ(report["empty_classes"], nlohmann::json::array({"yak"}));
  EXPECT_EQ(open(folder.file("a.h5"))->class_names().size(), 4U);
  test::fs::create_directories(folder.file("tree/zzz"));
  EXPECT_THAT(pack({folder.file("tree"), folder.file("b.h5")}).err, HasSubstr("zzz: holds no picture"));
}

TEST(Pack, ReplacesAnExistingFileOnlyWithOverwrite) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  ASSERT_EQ(pack({folder.file("tree"), folder.file("a.h5")}).exit_code, 0);
  const auto before = test::content_of_file(folder.file("a.h5"));
  EXPECT_THAT(pack({folder.file("tree"), folder.file("a.h5")}).out, HasSubstr("was already packed"));
  const Ended other = pack({"--repack", folder.file("tree"), folder.file("a.h5")});
  EXPECT_EQ(other.exit_code, 73);
  EXPECT_THAT(other.err, HasSubstr("exists and holds something else"));
  EXPECT_EQ(test::content_of_file(folder.file("a.h5")), before);
  EXPECT_EQ(pack({"--repack", "--overwrite", folder.file("tree"), folder.file("a.h5")}).exit_code, 0);
  EXPECT_NE(test::content_of_file(folder.file("a.h5")), before);
  ASSERT_EQ(pack({"--resize=30", folder.file("tree"), folder.file("b.h5")}).exit_code, 0);
  EXPECT_EQ(pack({"--resize=40", folder.file("tree"), folder.file("b.h5")}).exit_code, 73);
  test::fs::rename(folder.file("tree/cat/0.jpg"), folder.file("tree/cat/00.jpg"));
  EXPECT_EQ(pack({"--resize=30", folder.file("tree"), folder.file("b.h5")}).exit_code, 73);
}

TEST(Pack, FailsOnAFileModifiedDuringReadingEvenWithSkip) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  const std::string path = folder.file("tree/cat/1.jpg");
  std::atomic<bool> done = false;
  std::thread writer([&] {  // so often that a reading without a change in between is seldom
    for (long nanoseconds = 0; !done; nanoseconds = (nanoseconds + 1) % 1'000'000'000) {
      const timespec times[] = {{0, UTIME_OMIT}, {1'000'000'000, nanoseconds}};
      ::utimensat(AT_FDCWD, path.c_str(), times, 0);
    }
  });
  Ended ended;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  do {
    ended = pack({"--bad-samples=skip", "--overwrite", folder.file("tree"), folder.file("a.h5")});
  } while (ended.exit_code == 0 && std::chrono::steady_clock::now() < deadline);
  done = true;
  writer.join();
  EXPECT_EQ(ended.exit_code, 74);
  EXPECT_THAT(ended.err, HasSubstr("cat/1.jpg: changed while it was read"));
}

TEST(Pack, VerifyFindsTheDamagedSample) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  const std::string path = folder.file("a.h5");
  ASSERT_EQ(pack({folder.file("tree"), path}).exit_code, 0);
  EXPECT_THAT(pack({"verify", path}).out, HasSubstr("9 images, 0 damaged"));
  const auto file = data::PackedFile::open(path);
  auto content = test::content_of_file(path);
  const auto at = file->layout().data.start + file->entries()[2].offset + 50;
  content[at] = static_cast<char>(content[at] ^ 4);
  test::write_content(path, content);
  const Ended ended = pack({"--json", "verify", path});
  EXPECT_EQ(ended.exit_code, 65);
  EXPECT_THAT(ended.err, HasSubstr("1 of 9 images is damaged, the first is cat/2.jpg"));
  EXPECT_EQ(nlohmann::json::parse(ended.out)["files"][0]["damaged"], nlohmann::json::array({"cat/2.jpg"}));
}

TEST(Pack, VerifyChecksTheNamesToo) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  const std::string path = folder.file("a.h5");
  ASSERT_EQ(pack({folder.file("tree"), path}).exit_code, 0);
  const auto at = data::PackedFile::open(path)->layout().name_data.start;
  auto content = test::content_of_file(path);
  content[at] = 'C';
  test::write_content(path, content);
  EXPECT_THAT(pack({"verify", path}).err, HasSubstr("/name_data has a wrong checksum"));
}

TEST(Pack, RejectsInvalidCommandLinesWithAdvice) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines{
      {{"--repak", "a", "b"}, "try --repack"},
      {{}, "DIR and OUT are missing"},
      {{"a", "b", "c"}, "unexpected argument"},
      {{"verify"}, "FILE is missing"},
      {{"--bad-samples=ignore", "a", "b"}, "--bad-samples: ignore"}};
  for (const auto& [arguments, advice] : lines) {
    const Ended ended = pack(arguments);
    EXPECT_EQ(ended.exit_code, 64);
    EXPECT_THAT(ended.err, HasSubstr(advice));
  }
  EXPECT_EQ(pack({folder.file("nothing"), folder.file("a.h5")}).exit_code, 66);
  test::make_tree(folder.file("tree"));
  EXPECT_EQ(pack({folder.file("tree"), folder.path()}).exit_code, 73);
  EXPECT_EQ(pack({folder.file("tree"), folder.file("no/such/folder/a.h5")}).exit_code, 73);
}

TEST(Pack, HelpNamesEveryOptionAndExitCode) {
  const Ended ended = pack({"--help"});
  EXPECT_EQ(ended.exit_code, 0);
  for (const char* text : {"--repack", "--resize", "--bad-samples", "--num-workers", "--overwrite", "verify", "75"}) {
    EXPECT_THAT(ended.out, HasSubstr(text));
  }
  EXPECT_THAT(pack({"--version"}).out, HasSubstr("rollcall-pack "));
}

}  // namespace
}  // namespace rollcall::pack
