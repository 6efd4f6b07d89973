#include "trainer/data/sources/packed_file.h"

#include <gmock/gmock.h>

#include <array>
#include <numeric>
#include <thread>

#include "tests/trainer/data/packed/sample_file.h"
#include "trainer/storage/hdf5.h"

namespace rollcall::data {
namespace {

using test::MadeSample;
using test::TemporaryFolder;
using testing::HasSubstr;

std::shared_ptr<const ImageSource> open(const std::string& path) {
  auto source = PackedSource::open(path);
  EXPECT_TRUE(source) << source.error().message();
  return source ? *source : nullptr;
}

std::string refusal(const std::string& path) {
  const auto source = PackedSource::open(path);
  return source ? "opened" : source.error().message();
}

void expect_sample(const ImageSource& source, std::int64_t index, const MadeSample& made, FetchBuffer& buffer) {
  const auto sample = source.fetch(index, buffer);
  ASSERT_TRUE(sample) << sample.error().message();
  EXPECT_TRUE(std::ranges::equal(sample->image.bytes, made.picture));
  EXPECT_EQ(sample->label, made.label);
  ASSERT_EQ(sample->image.tiling.has_value(), !made.tiles.empty());
  if (!made.tiles.empty()) {
    EXPECT_TRUE(std::ranges::equal(sample->image.tiling->tile_bytes, made.tiles));
    EXPECT_EQ(sample->image.tiling->size, (ImageSize{500, 375}));
    EXPECT_EQ(sample->image.tiling->orientation, 6);
  }
}

TEST(PackedSource, ReturnsEveryImageLabelAndTiling) {
  const TemporaryFolder folder;
  const auto made = test::three_samples();
  test::write_packed(folder.file("a.h5"), made);
  const auto source = open(folder.file("a.h5"));
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(source->class_names(), (std::vector<std::string>{"cat", "h\xc3\xbchner"}));
  FetchBuffer buffer;
  for (const std::int64_t index : {2, 0, 1, 0}) {
    expect_sample(*source, index, made[static_cast<std::size_t>(index)], buffer);
  }
  EXPECT_EQ(source->describe(1), folder.file("a.h5") + ": cat/line\nbreak.jpg");
}

TEST(PackedSource, CanBeReadByManyThreadsAtOnce) {
  const TemporaryFolder folder;
  const auto made = test::three_samples();
  test::write_packed(folder.file("a.h5"), made);
  const auto source = open(folder.file("a.h5"));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      FetchBuffer buffer;
      for (unsigned i = 0; i < 300; ++i) {
        const std::size_t index = (i + t) % 3;
        expect_sample(*source, static_cast<std::int64_t>(index), made[index], buffer);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(PackedSource, AllocatesNothingOnceBuffersAreLargeEnough) {
  const TemporaryFolder folder;
  test::write_packed(folder.file("a.h5"), test::three_samples());
  const auto source = open(folder.file("a.h5"));
  FetchBuffer buffer;
  ASSERT_TRUE(source->fetch(1, buffer));
  const auto* const bytes = buffer.bytes.data();
  const auto* const tiles = buffer.tile_bytes.data();
  for (std::int64_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(source->fetch(i % 3, buffer));
  }
  EXPECT_EQ(buffer.bytes.data(), bytes);
  EXPECT_EQ(buffer.tile_bytes.data(), tiles);
}

TEST(PackedSource, ReadsDataBeyondFourGibibytes) {
  const TemporaryFolder folder;
  constexpr std::uint64_t kFar = (std::uint64_t{5} << 30) + 12'345;
  const MadeSample made = test::three_samples()[1];
  std::vector<std::byte> bytes;
  PackedContent content = test::content_of({made}, bytes);
  content.columns.offset[0] = kFar;
  content.data_bytes += kFar;
  const std::string path = folder.file("large.h5");
  ASSERT_TRUE(storage::File(path, O_WRONLY | O_CREAT).write_at(bytes, packed_schema::kDataStart + kFar));
  const auto finished = finish_packed_file(path, content);
  ASSERT_TRUE(finished) << finished.error().message();
  FetchBuffer buffer;
  expect_sample(*open(path), 0, made, buffer);
}

TEST(PackedSource, RejectsAFileTruncatedAtAnyByte) {
  const TemporaryFolder folder;
  test::write_packed(folder.file("a.h5"), test::three_samples());
  const auto whole = test::content_of_file(folder.file("a.h5"));
  // Every byte of the structures; of the data, which is one long hole to HDF5, some.
  for (std::size_t cut = 0; cut < whole.size(); cut += cut < 4096 || cut > 75'000 ? 7 : 997) {
    test::write_content(folder.file("cut.h5"), {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)});
    const auto source = PackedSource::open(folder.file("cut.h5"));
    ASSERT_FALSE(source) << cut;
    EXPECT_EQ(source.error().kind, ErrorKind::BadData);
  }
}

TEST(PackedSource, DetectsAChangedByteOfAnImageAndNamesTheSample) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  test::write_packed(path, test::three_samples());
  auto content = test::content_of_file(path);
  content[4096 + 10] = static_cast<char>(content[4096 + 10] ^ 1);
  test::write_content(path, content);
  const auto source = open(path);
  FetchBuffer buffer;
  const auto sample = source->fetch(0, buffer);
  ASSERT_FALSE(sample);
  EXPECT_EQ(sample.error().kind, ErrorKind::BadData);
  EXPECT_THAT(sample.error().message(), HasSubstr(path + ": cat/a b.jpg: has a wrong checksum"));
  EXPECT_TRUE(source->fetch(1, buffer));
}

TEST(PackedSource, DetectsAChangedByteOfATileLength) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  test::write_packed(path, test::three_samples());
  auto content = test::content_of_file(path);
  content[4096 + 1000 + 70'000 + 1] = static_cast<char>(content[4096 + 1000 + 70'000 + 1] ^ 1);
  test::write_content(path, content);
  FetchBuffer buffer;
  EXPECT_FALSE(open(path)->fetch(1, buffer));
}

TEST(PackedSource, TruncationWhileReadingIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  test::write_packed(path, test::three_samples());
  const auto source = open(path);
  std::filesystem::resize_file(path, 4096 + 500);
  FetchBuffer buffer;
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto sample = source->fetch(i, buffer);
    ASSERT_FALSE(sample);
    EXPECT_THAT(sample.error().message(), HasSubstr("became shorter"));
  }
}

TEST(PackedSource, OverwritingWhileReadingIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  test::write_packed(path, test::three_samples());
  const auto source = open(path);
  const auto other = test::made_bytes(80'000, 9);
  ASSERT_TRUE(storage::File(path, O_WRONLY).write_at(other, 0));
  FetchBuffer buffer;
  EXPECT_FALSE(source->fetch(0, buffer));
}

TEST(PackedSource, KeepsReadingTheOldFileAfterAReplacement) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  const auto made = test::three_samples();
  test::write_packed(path, made);
  const auto source = open(path);
  test::write_content(folder.file("b"), {'x'});
  std::filesystem::rename(folder.file("b"), path);
  FetchBuffer buffer;
  expect_sample(*source, 1, made[1], buffer);
}

/// Every byte of the file that is neither data nor unused.
TEST(PackedSource, ChangedByteOfTablesOrStructuresNeverGivesOtherContent) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  const auto made = test::three_samples();
  test::write_packed(path, made);
  const auto whole = test::content_of_file(path);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += at < 4096 || at > 75'000 ? 3 : 9973) {
    auto changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    test::write_content(path, changed);
    const auto source = PackedSource::open(path);
    if (!source) {
      ++refused;
      continue;
    }
    FetchBuffer buffer;
    for (std::int64_t i = 0; i < (*source)->size(); ++i) {
      if ((*source)->fetch(i, buffer)) {
        expect_sample(**source, i, made[static_cast<std::size_t>(i)], buffer);
      }
    }
  }
  EXPECT_GT(refused, 500U);
}

TEST(PackedSource, RejectsOtherKindsOfFilesWithTheReason) {
  const TemporaryFolder folder;
  test::write_content(folder.file("empty.h5"), {});
  test::write_content(folder.file("page.h5"), {'<', 'h', 't', 'm', 'l', '>'});
  EXPECT_THAT(refusal(folder.file("empty.h5")), HasSubstr("is neither an HDF5 file nor a tar archive"));
  EXPECT_THAT(refusal(folder.file("page.h5")), HasSubstr("is neither an HDF5 file nor a tar archive"));
  EXPECT_THAT(refusal(folder.file("none.h5")), HasSubstr("No such file"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("Is a directory"));
  {
    const storage::Handle other(H5Fcreate(folder.file("other.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                                H5Fclose);
    ASSERT_TRUE(storage::write_text_attribute(other.get(), "format", "rollcall-checkpoint"));
  }
  EXPECT_THAT(refusal(folder.file("other.h5")), HasSubstr("not in format rollcall-images"));
}

void with_file(const std::string& path, const std::function<void(hid_t)>& change) {
  storage::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, storage::hdf5_file_access().get()), H5Fclose);
  ASSERT_TRUE(file);
  change(file.get());
}

TEST(PackedSource, RejectsANewerMajorVersionAndReadsANewerMinorOne) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  for (const std::string version : {"2.0", "1.9"}) {
    test::write_packed(path, test::three_samples());
    with_file(path, [&](hid_t file) {
      H5Adelete(file, packed_schema::kVersionAttribute);
      ASSERT_TRUE(storage::write_text_attribute(file, packed_schema::kVersionAttribute, version));
      ASSERT_TRUE(storage::write_text_attribute(file, "of_the_future", "anything"));
    });
    if (version == "2.0") {
      EXPECT_THAT(refusal(path), HasSubstr("has format version 2.0, but this program reads only versions up to 1.x"));
    } else {
      EXPECT_EQ(refusal(path), "opened");
    }
  }
}

TEST(PackedSource, RejectsAnUnfinishedFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  test::write_packed(path, test::three_samples());
  with_file(path, [](hid_t file) {
    ASSERT_TRUE(storage::update_flag_attribute(file, packed_schema::kCompleteAttribute, false));
  });
  EXPECT_THAT(refusal(path), HasSubstr("is incomplete: its packing did not finish"));
}

TEST(PackedSource, RejectsATableWithoutChecksum) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  test::write_packed(path, test::three_samples());
  with_file(path, [&](hid_t file) {
    const storage::Handle table(H5Dopen2(file, packed_schema::kLabel, H5P_DEFAULT), H5Dclose);
    ASSERT_GE(H5Adelete(table.get(), packed_schema::kCrcAttribute), 0);
  });
  EXPECT_THAT(refusal(path), HasSubstr(packed_schema::kLabel + std::string(" has a wrong checksum")));
}

TEST(PackedSource, RejectsTablesOfAWrongType) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  for (const char* name : {packed_schema::kOffset, packed_schema::kData, packed_schema::kClassNames}) {
    test::write_packed(path, test::three_samples());
    with_file(path, [&](hid_t file) {
      H5Ldelete(file, name, H5P_DEFAULT);
      const hsize_t three = 3;
      const storage::Handle space(H5Screate_simple(1, &three, nullptr), H5Sclose);
      const storage::Handle table(
          H5Dcreate2(file, name, H5T_IEEE_F64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
      const std::array numbers{1.0, 2.0, 3.0};
      H5Dwrite(table.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data());  // places it
    });
    EXPECT_THAT(refusal(path), HasSubstr(std::string(name) + " has an unexpected type or layout"));
    with_file(path, [&](hid_t file) { H5Ldelete(file, name, H5P_DEFAULT); });
    EXPECT_THAT(refusal(path), HasSubstr(std::string(name) + " cannot be opened"));
  }
}

}  // namespace
}  // namespace rollcall::data
