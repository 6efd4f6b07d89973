#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/checkpoint_format/sample_content.h"
#include "trainer/checkpoint/format/hdf5_objects.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/hdf5_objects.h"

namespace rollcall::checkpoint::format {
namespace {

TEST(CheckpointFile, GivesBackWhatWasWritten) {
  const TemporaryFolder folder;
  const SampleContent sample(7);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), sample.content, {}));
  const auto read = read_checkpoint(folder.file("a.h5"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(same_content(read->content, sample.content));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.h5"});
}

TEST(CheckpointFile, HoldsEveryElementType) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes(24, std::byte{0x3c});
  Content content;
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64, DType::Bool, DType::UInt8,
                            DType::Int8, DType::Int16, DType::Int32, DType::Int64}) {
    const auto count = static_cast<std::int64_t>(bytes.size() / dtype_size(dtype));
    content.tensors.push_back({"/model/" + std::string(dtype_name(dtype)), "k", dtype, {count}, bytes});
  }
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), content, {}));
  const auto read = read_checkpoint(folder.file("a.h5"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(same_content(read->content, content));
}

TEST(CheckpointFile, TellsWhoWroteItAndWhen) {
  const TemporaryFolder folder;
  ASSERT_TRUE(
      write_checkpoint(folder.file("a.h5"), SampleContent(1).content, {.writer = "w 1", .torch_version = "2.15.0"}));
  const auto info = read_info(folder.file("a.h5"));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->writer, "w 1");
  EXPECT_EQ(info->torch_version, "2.15.0");
  EXPECT_EQ(info->format_version, "1.0");
  EXPECT_EQ(info->created.size(), std::string("2025-01-31T23:59:59Z").size());
}

TEST(CheckpointFile, ReplacesAnEarlierOneOfTheSameName) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), SampleContent(1).content, {}));
  const SampleContent second(2);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), second.content, {}));
  EXPECT_TRUE(same_content(read_checkpoint(folder.file("a.h5"))->content, second.content));
}

TEST(CheckpointFile, RespectsTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0027);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), SampleContent(1).content, {}));
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(folder.file("a.h5").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST(CheckpointFile, RefusesANewerMajorVersionButReadsANewerMinorOne) {
  const TemporaryFolder folder;
  for (const auto& [version, readable] : {std::pair{"2.0", false}, std::pair{"1.9", true}}) {
    ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), SampleContent(1).content, {}));
    {
      const storage::Handle file(H5Fopen(folder.file("a.h5").c_str(), H5F_ACC_RDWR, storage::hdf5_file_access().get()),
                                 H5Fclose);
      H5Adelete(file.get(), schema::kVersionAttribute);
      ASSERT_TRUE(storage::write_text_attribute(file.get(), schema::kVersionAttribute, version));
    }
    const auto read = read_checkpoint(folder.file("a.h5"));
    ASSERT_EQ(read.has_value(), readable) << version;
    if (!read) {
      EXPECT_EQ(read.error().exit_code, ExitCode::Mismatch);
    }
  }
}

TEST(CheckpointFile, ObjectsOfUnknownNamesAreIgnored) {
  const TemporaryFolder folder;
  const SampleContent sample(3);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), sample.content, {}));
  {
    const storage::Handle file(H5Fopen(folder.file("a.h5").c_str(), H5F_ACC_RDWR, storage::hdf5_file_access().get()),
                               H5Fclose);
    const storage::Handle group(H5Gcreate2(file.get(), "/model/of_the_future", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                H5Gclose);
    ASSERT_TRUE(storage::write_text_attribute(group.get(), "novelty", "yes"));
  }
  EXPECT_TRUE(same_content(read_checkpoint(folder.file("a.h5"))->content, sample.content));
}

TEST(CheckpointFile, WhatIsNoCheckpointIsNamedAndItsReasonGiven) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_checkpoint(folder.file("absent.h5")).error().exit_code, ExitCode::NoInput);
  EXPECT_EQ(read_checkpoint(folder.path()).error().exit_code, ExitCode::NoInput);
  write_file(folder.file("text.h5"), {'h', 'e', 'l', 'l', 'o'});
  write_file(folder.file("nothing.h5"), {});
  for (const char* name : {"text.h5", "nothing.h5"}) {
    const auto read = read_checkpoint(folder.file(name));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().exit_code, ExitCode::BadData);
    EXPECT_EQ(read.error().value, folder.file(name));
  }
}

TEST(CheckpointFile, FolderThatDoesNotExistIsAnErrorOnOneLine) {
  const TemporaryFolder folder;
  const auto written = write_checkpoint(folder.file("no/such/a.h5"), SampleContent(1).content, {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().exit_code, ExitCode::CannotCreate);
  EXPECT_NE(written.error().message().find("No such file or directory"), std::string::npos)
      << written.error().message();
}

}  // namespace
}  // namespace rollcall::checkpoint::format
