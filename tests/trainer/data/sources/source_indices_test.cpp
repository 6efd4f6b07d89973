#include "trainer/data/sources/source_indices.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/trainer/data/packed/sample_file.h"
#include "trainer/data/sources/image_folder.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kLongAfter = std::numeric_limits<std::int64_t>::max();

/// A folder with a file, an index of two samples that depends on both, and a folder to keep it in.
class StoredIndex : public testing::Test {
 protected:
  StoredIndex() {
    fs::create_directory(data_.file("folder"));
    write("folder/shard", "content");
  }

  void write(const std::string& name, const std::string& text) const { std::ofstream(data_.file(name)) << text; }

  [[nodiscard]] SampleIndex index() const {
    SampleIndexBuilder builder;
    builder.add({.offset = 512, .bytes = 7, .shard = 1, .label = 0}, "first\xff");
    builder.add({.offset = 9000, .bytes = 8, .shard = 2, .label = 1}, "");
    builder.add({.offset = 99, .bytes = 9, .shard = 3, .label = 1}, "third");
    const SampleIndex::About about{.source = kSource,
                                   .class_names = {"cat", "red\npanda\xfe"},
                                   .stamps = {file_stamp(data_.file("folder")), file_stamp(data_.file("folder/shard")),
                                              file_stamp(data_.file("nothing"))},
                                   .warning = "two are left out\xff"};
    const Result<SampleIndex> made = builder.finish(about);
    return made ? *made : throw std::runtime_error(made.error().message());
  }

  [[nodiscard]] std::string path() const { return index_path(kept_.path() + "/made/here", kSource); }
  [[nodiscard]] std::optional<SampleIndex> read() const { return read_index(path(), kSource); }
  void keep() const { ASSERT_TRUE(write_index(path(), index(), kLongAfter)); }

  const std::string kSource = "shards\n/data/\xff";
  const test::TemporaryFolder data_;
  const test::TemporaryFolder kept_;
};

TEST_F(StoredIndex, RoundTrips) {
  keep();
  const std::optional<SampleIndex> read_again = read();
  ASSERT_TRUE(read_again);
  ASSERT_EQ(read_again->size(), 3);
  EXPECT_EQ(read_again->name(0), "first\xff");
  EXPECT_EQ(read_again->name(1), "");
  EXPECT_EQ(read_again->name(2), "third");
  EXPECT_EQ(read_again->entry(1).offset, 9000U);
  EXPECT_EQ(read_again->entry(1).bytes, 8U);
  EXPECT_EQ(read_again->entry(1).shard, 2U);
  EXPECT_EQ(read_again->entry(1).label, 1U);
  EXPECT_THAT(read_again->about().class_names, ElementsAre("cat", "red\npanda\xfe"));
  EXPECT_EQ(read_again->about().source, kSource);
  EXPECT_EQ(read_again->about().warning, "two are left out\xff");
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path()).parent_path()), fs::directory_iterator()), 1);
}

TEST_F(StoredIndex, IsInvalidAfterAFolderOrShardChanged) {
  keep();
  write("folder/more", "");
  EXPECT_FALSE(read());
  keep();
  write("folder/shard", "another content");
  EXPECT_FALSE(read());
  keep();
  fs::remove(data_.file("folder/shard"));
  EXPECT_FALSE(read());
  keep();
  write("nothing", "now there is something");
  EXPECT_FALSE(read());
}

TEST_F(StoredIndex, IsInvalidForARewrittenFileOfEqualSizeAndTime) {
  keep();
  struct stat before {};
  ASSERT_EQ(::stat(data_.file("folder/shard").c_str(), &before), 0);
  write("folder/shard", "CONTENT");
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, data_.file("folder/shard").c_str(), times, 0), 0);
  EXPECT_FALSE(read());  // the time of the last change of the inode is the kernel's
}

TEST_F(StoredIndex, IsNotStoredIfTheDataChangedJustBefore) {
  ASSERT_TRUE(write_index(path(), index(), file_stamp(data_.file("folder")).changed + 900'000'000));
  EXPECT_FALSE(fs::exists(path()));
  ASSERT_TRUE(write_index(path(), index(), file_stamp(data_.file("folder")).changed + 3'000'000'000));
  EXPECT_TRUE(fs::exists(path()));
}

TEST_F(StoredIndex, IsNotStoredIfTheDataChangedMeanwhile) {
  const SampleIndex made = index();
  write("folder/shard", "another content");
  ASSERT_TRUE(write_index(path(), made, kLongAfter));
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(StoredIndex, LeftoversOfKilledWritersAreRemovedAfterADay) {
  keep();
  fs::remove(path());
  const std::string left = path() + "." + std::to_string(::getpid());
  std::ofstream(left) << "a part";
  keep();
  EXPECT_TRUE(read());
  EXPECT_TRUE(fs::exists(left));  // somebody may be writing it
  fs::last_write_time(left, fs::last_write_time(left) - std::chrono::hours(25));
  keep();
  EXPECT_TRUE(read());
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(StoredIndex, HasANamePerUser) { EXPECT_THAT(path(), HasSubstr("-" + std::to_string(::geteuid()) + ".index")); }

TEST_F(StoredIndex, StampsContainInodesAndCountEntriesOfFoldersWithoutTimes) {
  const FileStamp before = file_stamp(data_.file("folder/shard"));
  fs::copy(data_.file("folder/shard"), data_.file("folder/copy"));
  fs::rename(data_.file("folder/copy"), data_.file("folder/shard"));
  EXPECT_NE(file_stamp(data_.file("folder/shard")).inode, before.inode);
  EXPECT_EQ(file_stamp(data_.file("folder")).entries, -1);
  const timespec times[2] = {{}, {}};
  ASSERT_EQ(::utimensat(AT_FDCWD, data_.file("folder").c_str(), times, 0), 0);
  EXPECT_EQ(file_stamp(data_.file("folder")).entries, 3);  // with "." and ".."
}

TEST_F(StoredIndex, IsNotUsedForAnotherSource) {
  keep();
  EXPECT_FALSE(read_index(path(), "tree\n/data"));
}

TEST_F(StoredIndex, WritableByOthersIsNotRead) {
  keep();
  ASSERT_EQ(::chmod(path().c_str(), 0664), 0);
  EXPECT_FALSE(read());
  ASSERT_EQ(::chmod(path().c_str(), 0644), 0);
  EXPECT_TRUE(read());
  fs::rename(path(), path() + ".real");
  fs::create_symlink(path() + ".real", path());
  EXPECT_FALSE(read());
  if (::geteuid() == 0) {
    fs::rename(path() + ".real", path());
    ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);
    EXPECT_FALSE(read());
  }
}

TEST_F(StoredIndex, DamagedAnywhereIsNotRead) {
  keep();
  std::ifstream file(path(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t at = 0; at < whole.size(); ++at) {
    const bool unused = at >= 12 && at < 16;
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(path(), std::ios::binary) << damaged;
    EXPECT_EQ(read().has_value(), unused) << at;
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path(), std::ios::binary) << whole.substr(0, length);
    EXPECT_FALSE(read()) << length;
  }
}

TEST_F(StoredIndex, SavesTheNextRunTheScan) {
  keep();
  SourceIndices indices(fs::path(path()).parent_path());
  const auto found =
      indices.get_or_make(kSource, []() -> Result<SampleIndex> { throw std::logic_error("made again"); });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), 3);
  EXPECT_EQ(indices.all().size(), 1U);
  EXPECT_EQ(indices.warnings().size(), 1U) << "told again";
}

TEST_F(StoredIndex, IsBuiltOnceIfNoneIsStored) {
  SourceIndices indices;
  int times = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(indices.get_or_make(kSource, [&]() -> Result<SampleIndex> {
      times += 1;
      return index();
    }));
  }
  EXPECT_EQ(times, 1);
}

TEST_F(StoredIndex, ThatCannotBeStoredIsAWarning) {
  write("folder/shard", "content");
  SampleIndexBuilder builder;
  builder.add({}, "only");
  const auto made = builder.finish({.source = kSource, .class_names = {"cat"}, .stamps = {}});
  SourceIndices indices(data_.file("folder/shard") + "/below a file");
  EXPECT_TRUE(indices.get_or_make(kSource, [&] { return made; }));
  ASSERT_EQ(indices.warnings().size(), 1U);
  EXPECT_THAT(indices.warnings()[0], HasSubstr("cannot be written: Not a directory"));
}

TEST(TreeIndex, IsInvalidAfterAFileIsAddedInAnyFolder) {
  const test::TemporaryFolder folder;
  const test::TemporaryFolder kept;
  for (const char* const name : {"tree/a/1.jpg", "tree/a/deep/er/2.jpg", "tree/b/3.jpg"}) {
    fs::create_directories(fs::path(folder.file(name)).parent_path());
    test::write_content(folder.file(name), {'x'});
  }
  const auto changed = [&](const std::string& added) {
    SourceIndices indices;
    const auto tree = scan_image_tree(folder.file("tree"), indices);
    const std::string path = kept.file("index");
    EXPECT_TRUE(tree && write_index(path, tree->index, kLongAfter));
    EXPECT_TRUE(read_index(path, tree->index.about().source));
    test::write_content(folder.file(added), {'x'});
    return !read_index(path, tree->index.about().source);
  };
  EXPECT_TRUE(changed("tree/a/4.jpg"));
  EXPECT_TRUE(changed("tree/a/deep/5.jpg"));
  EXPECT_TRUE(changed("tree/a/deep/er/6.jpg"));
  EXPECT_TRUE(changed("tree/README"));  // a class could be new
}

TEST(TreeIndex, IndexingStopsOnRequest) {
  const test::TemporaryFolder folder;
  fs::create_directories(folder.file("tree/a"));
  test::write_content(folder.file("tree/a/1.jpg"), {'x'});
  SourceIndices indices;
  indices.stop = true;
  const auto tree = scan_image_tree(folder.file("tree"), indices);
  ASSERT_FALSE(tree);
  EXPECT_THAT(tree.error().message(), HasSubstr("indexing was stopped"));
}

TEST(SharedMemory, IsSharedBetweenMappingsAndCannotShrink) {
  auto made = storage::SharedMemory::make(5);
  ASSERT_TRUE(made);
  made->writable()[3] = std::byte{42};
  const auto other = storage::SharedMemory::map_from_process(::getpid(), made->descriptor());
  ASSERT_TRUE(other);
  ASSERT_EQ(other->bytes().size(), 5U);
  EXPECT_EQ(other->bytes()[3], std::byte{42});
  EXPECT_NE(::ftruncate(made->descriptor(), 1), 0);
  EXPECT_FALSE(storage::SharedMemory::map_from_process(::getpid(), 0));  // whatever standard input is
}

}  // namespace
}  // namespace rollcall::data
