#include "trainer/data/sources/packed_writer.h"

#include <gmock/gmock.h>

#include "tests/trainer/data/packed/sample_file.h"
#include "trainer/data/sources/packed_file.h"

namespace rollcall::data {
namespace {

using test::TemporaryFolder;

TEST(PackedWriter, EqualContentGivesEqualFiles) {
  const TemporaryFolder folder;
  test::write_packed(folder.file("a.h5"), test::three_samples());
  test::write_packed(folder.file("b.h5"), test::three_samples());
  EXPECT_EQ(test::content_of_file(folder.file("a.h5")), test::content_of_file(folder.file("b.h5")));
}

TEST(PackedWriter, LeavesNoTemporaryFiles) {
  const TemporaryFolder folder;
  test::write_packed(folder.file("a.h5"), test::three_samples());
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    found.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(found, testing::ElementsAre("a.h5"));
}

TEST(PackedWriter, OverwritesLeftoversOfAnInterruptedAttempt) {
  const TemporaryFolder folder;
  // Without a sample there is room for data all the same, which nothing is written to.
  for (const auto& samples : {test::three_samples(), decltype(test::three_samples()){}}) {
    test::write_packed(folder.file("a.h5"), samples);
    std::vector<std::byte> bytes;
    const PackedContent content = test::content_of(samples, bytes);
    {
      const storage::File file(folder.file("b.h5"), O_WRONLY | O_CREAT);
      ASSERT_TRUE(file.write_at(test::made_bytes(200'000, 5), 0));
      ASSERT_TRUE(file.write_at(bytes, packed_schema::kDataStart));
    }
    test::write_content(folder.file("b.h5.tables"), {'x'});
    ASSERT_TRUE(finish_packed_file(folder.file("b.h5"), content));
    EXPECT_EQ(test::content_of_file(folder.file("a.h5")), test::content_of_file(folder.file("b.h5")));
  }
}

TEST(PackedWriter, FileWithoutSamplesIsValid) {
  const TemporaryFolder folder;
  test::write_packed(folder.file("a.h5"), {});
  const auto file = PackedFile::open(folder.file("a.h5"));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_TRUE(file->entries().empty());
}

TEST(PackedWriter, RecordsWriterAndTime) {
  const TemporaryFolder folder;
  test::write_packed(folder.file("a.h5"), test::three_samples());
  const auto file = PackedFile::open(folder.file("a.h5"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->layout().writer, "test 1");
  EXPECT_EQ(file->layout().created, "2026-01-02T03:04:05Z");
  EXPECT_EQ(file->layout().format_version, "1.1");
  EXPECT_EQ(file->layout().data.start, packed_schema::kDataStart);
}

}  // namespace
}  // namespace rollcall::data
