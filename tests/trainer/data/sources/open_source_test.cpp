#include "trainer/data/sources/image_source.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>

#include "tests/trainer/data/packed/sample_file.h"
#include "trainer/data/sources/image_folder.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

void touch(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  test::write_content(path, {'x'});
}

Result<std::shared_ptr<const ImageSource>> opened(const std::string& path) {
  SourceIndices indices;
  return open_source(path, indices);
}

Result<ImageTree> scanned_folder(const std::string& path) {
  SourceIndices indices;
  return scan_image_tree(path, indices);
}

std::string refusal(const std::string& path) {
  const auto source = opened(path);
  return source ? "opened" : source.error().message();
}

/// With the system's own tar: one picture with a label in each shard.
void make_shards(const TemporaryFolder& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    test::write_content(folder.file(number + ".jpg"), {'p', number[0]});
    test::write_content(folder.file(number + ".cls"), {number[0]});
    const std::string command = "cd '" + folder.path() + "' && tar cf shard-0" + number + ".tar " + number + ".jpg " +
                                number + ".cls && rm " + number + ".jpg " + number + ".cls";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
}

TEST(OpenSource, DetectsImageTreesAndPackedFiles) {
  const TemporaryFolder folder;
  touch(folder.file("tree/cat/1.jpg"));
  touch(folder.file("tree/dog/1.png"));
  test::write_packed(folder.file("packed.h5"), test::three_samples());
  const auto tree = opened(folder.file("tree"));
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_EQ((*tree)->size(), 2);
  const auto packed = opened(folder.file("packed.h5"));
  ASSERT_TRUE(packed) << packed.error().message();
  EXPECT_EQ((*packed)->size(), 3);
}

TEST(OpenSource, IdentityChangesOnlyIfTheDataChanges) {
  const TemporaryFolder folder;
  const auto identity = [&] { return (*opened(folder.file("tree")))->identity(); };
  for (const char* const name : {"tree/a/1.jpg", "tree/a/2.jpg", "tree/b/3.jpg", "tree/c/4.jpg"}) {
    touch(folder.file(name));
  }
  const DataIdentity before = identity();
  EXPECT_EQ(before.images, 4);
  EXPECT_EQ(identity(), before);

  fs::rename(folder.file("tree/b"), folder.file("tree/B"));  // which comes first: each label is another class
  const DataIdentity renamed = identity();
  EXPECT_EQ(renamed.images, before.images);
  EXPECT_NE(renamed.class_names, before.class_names);
  fs::rename(folder.file("tree/B"), folder.file("tree/b"));

  fs::rename(folder.file("tree/a/2.jpg"), folder.file("tree/b/2.jpg"));
  const DataIdentity moved = identity();
  EXPECT_EQ(moved.class_names, before.class_names);
  EXPECT_NE(moved.labels, before.labels);
  fs::rename(folder.file("tree/b/2.jpg"), folder.file("tree/a/9.jpg"));
  const DataIdentity other_name = identity();
  EXPECT_EQ(other_name.labels, before.labels);
  EXPECT_NE(other_name.picture_names, before.picture_names);
}

TEST(OpenSource, IdentityOfAPackedFileEqualsThatOfItsTree) {
  const TemporaryFolder folder;
  const std::vector<test::MadeSample> samples = test::three_samples();
  test::write_packed(folder.file("packed.h5"), samples);
  const auto packed = opened(folder.file("packed.h5"));
  ASSERT_TRUE(packed);
  SampleIndexBuilder builder;
  for (const test::MadeSample& sample : samples) {
    builder.add({.label = static_cast<std::uint32_t>(sample.label)}, sample.name);
  }
  const auto tree = builder.finish({.source = "", .class_names = (*packed)->class_names(), .stamps = {}});
  ASSERT_TRUE(tree);
  EXPECT_EQ(tree->identity(), (*packed)->identity());
}

TEST(OpenSource, RejectsADanglingLinkToAShard) {
  const TemporaryFolder folder;
  make_shards(folder, 1);
  fs::create_symlink(folder.file("nowhere"), folder.file("shard-01.tar"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("shard-01.tar: cannot be read: No such file or directory"));
}

TEST(OpenSource, SkipsHiddenAndCompressedShardsWithAWarning) {
  const TemporaryFolder folder;
  make_shards(folder, 2);
  fs::create_directory(folder.file("cat"));
  const std::string in_folder = "cd '" + folder.path() + "' && ";
  ASSERT_EQ(std::system(
                (in_folder + "gzip -k shard-01.tar && cp shard-01.tar .hidden.tar && echo x > ._shard-00.tar").c_str()),
            0);
  SourceIndices indices;
  const auto source = open_source(folder.path(), indices);
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->size(), 2);
  ASSERT_EQ(indices.warnings().size(), 1U);
  EXPECT_THAT(indices.warnings()[0],
              HasSubstr("left out, 3: 1 compressed (such as shard-01.tar.gz), 1 folders (such as "
                        "cat), 1 hidden (such as .hidden.tar)"));
  ASSERT_EQ(std::system((in_folder + "rm *.tar").c_str()), 0);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("shard-01.tar.gz: is compressed with gzip"));
  EXPECT_THAT(refusal(folder.file("shard-01.tar.gz")), HasSubstr("shard-01.tar.gz: is compressed with gzip"));
  EXPECT_THAT(refusal(folder.file("*.gz")), HasSubstr("shard-01.tar.gz: is compressed with gzip"));
}

TEST(OpenSource, RejectsTrainAndValidationShardsInOneFolder) {
  for (const char* const other : {"val-000.tar", "imagenet_valid_0.tar", "Validation.1.tar", "test7.tar"}) {
    const TemporaryFolder folder;
    make_shards(folder, 3);
    fs::rename(folder.file("shard-00.tar"), folder.file("imagenet-train-000.tar"));
    fs::rename(folder.file("shard-01.tar"), folder.file("imagenet-train-001.tar"));
    fs::rename(folder.file("shard-02.tar"), folder.file(other));
    EXPECT_THAT(refusal(folder.path()),
                AllOf(HasSubstr("holds shards of two sets, imagenet-train-*.tar and "),
                      HasSubstr("--data='" + folder.file("imagenet-train-*.tar") + "' to validate on a part of these"),
                      HasSubstr("folders train and val")));
    EXPECT_TRUE(opened(folder.file("imagenet-train-*.tar")));
    fs::rename(folder.file(other), folder.file("latest-train-val.tar"));
    EXPECT_TRUE(opened(folder.path()));
  }
}

TEST(OpenSource, RejectsANamedPipeWithoutBlocking) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe.h5").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder.file("pipe.h5")), HasSubstr("pipe.h5: cannot be read"));
}

TEST(OpenSource, AcceptsShardsAsFolderFilePatternOrRange) {
  const TemporaryFolder folder;
  make_shards(folder, 3);
  const std::vector<std::pair<std::string, std::int64_t>> names{{folder.path(), 3},
                                                                {folder.file("shard-01.tar"), 1},
                                                                {folder.file("shard-*.tar"), 3},
                                                                {folder.file("shard-{00..01}.tar"), 2},
                                                                {folder.file("shard-{0..0}{1..2}.tar"), 2}};
  for (const auto& [name, size] : names) {
    const auto source = opened(name);
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_EQ((*source)->size(), size) << name;
  }
  const auto in_order = opened(folder.path());
  FetchBuffer buffer;
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*in_order)->fetch(i, buffer)->label, i);
  }
}

TEST(OpenSource, RangeMayEndAtTheLargestNumber) {
  const TemporaryFolder folder;
  make_shards(folder, 1);
  fs::rename(folder.file("shard-00.tar"), folder.file("shard-4294967295.tar"));
  const auto source = opened(folder.file("shard-{4294967295..4294967295}.tar"));
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->size(), 1);
}

TEST(OpenSource, RejectsARangeWithAMissingShard) {
  const TemporaryFolder folder;
  make_shards(folder, 2);
  EXPECT_THAT(refusal(folder.file("shard-{00..02}.tar")), HasSubstr("shard-02.tar: cannot be read: No such file"));
}

TEST(OpenSource, ReportsMissingFilesAndFolders) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.file("nothing")), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(folder.file("*.tar")), HasSubstr("matches no file"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("holds no class folder"));
}

TEST(ImageTree, RejectsALinkToAParentFolder) {
  const TemporaryFolder folder;
  touch(folder.file("cat/young/1.jpg"));
  fs::create_directory_symlink("..", folder.file("cat/young/back"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("cat/young/back: is a link to a folder above it"));
}

TEST(ImageTree, RejectsALinkToTheTreeItself) {
  const TemporaryFolder folder;
  touch(folder.file("cat/1.jpg"));
  fs::create_directory_symlink(folder.path(), folder.file("cat/all"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("is a link to a folder above it"));
}

TEST(ImageTree, FollowsLinksToOtherFoldersEvenTwoToTheSame) {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  touch(elsewhere.file("1.jpg"));
  touch(folder.file("cat/0.jpg"));
  fs::create_directory_symlink(elsewhere.path(), folder.file("cat/a"));
  fs::create_directory_symlink(elsewhere.path(), folder.file("cat/b"));
  const auto tree = scanned_folder(folder.path());
  ASSERT_TRUE(tree) << tree.error().message();
  EXPECT_EQ(tree->size(), 3U);
}

TEST(ImageTree, NamesMayContainBlanksLineBreaksAndUnicode) {
  const TemporaryFolder folder;
  for (const char* name : {"a b/1 2.jpg", "line\nbreak/x\n.PNG", "鸡/ü.jpeg"}) {
    touch(folder.file(name));
  }
  const auto tree = scanned_folder(folder.path());
  ASSERT_TRUE(tree);
  EXPECT_THAT(tree->class_names(), testing::ElementsAre("a b", "line\nbreak", "鸡"));
  FetchBuffer buffer;
  EXPECT_TRUE(ImageFolder(*tree).fetch(1, buffer));
}

}  // namespace
}  // namespace rollcall::data
