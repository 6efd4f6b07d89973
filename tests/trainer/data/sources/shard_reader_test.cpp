#include "trainer/data/sources/shard_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/support/tar_writer.h"
#include "tests/trainer/data/packed/sample_file.h"
#include "trainer/data/sources/tar_source.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;
using test::TarWriter;
using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Shard : public testing::Test {
 protected:
  /// With members KEY.cls whose label is the digit in KEY, and others that hold their name.
  void write(const std::vector<std::string>& members) {
    TarWriter tar;
    for (const std::string& member : members) {
      tar.add(member,
              lower_case(member).ends_with("cls") ? member.substr(member.find_first_of("0123456789"), 1) : member);
    }
    write_archive(tar);
  }
  void write_archive(const TarWriter& tar) {
    const std::string archive = tar.finished();
    test::write_content(path_, {archive.begin(), archive.end()});
  }

  void open() {
    SourceIndices indices;
    source_ = TarSource::open({path_}, indices);
    warnings_ = indices.warnings();
  }
  /// The pictures' bytes, which are their members' names.
  std::vector<std::string> pictures() {
    open();
    EXPECT_TRUE(source_) << source_.error().message();
    std::vector<std::string> found;
    FetchBuffer buffer;
    for (std::int64_t i = 0; source_ && i < (*source_)->size(); ++i) {
      const auto sample = (*source_)->fetch(i, buffer);
      found.emplace_back(reinterpret_cast<const char*>(sample->image.bytes.data()), sample->image.bytes.size());
    }
    return found;
  }
  std::string refusal() {
    open();
    EXPECT_FALSE(source_);
    if (!source_) {
      EXPECT_EQ(source_.error().kind, ErrorKind::BadData);
    }
    return source_ ? "" : source_.error().message();
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("a.tar");
  Result<std::shared_ptr<const ImageSource>> source_ = indexing_stopped("");
  std::vector<std::string> warnings_;
};

TEST_F(Shard, WarnsAboutAnEndOverwrittenWithZeros) {
  TarWriter tar;
  for (int i = 0; i < 20; ++i) {
    tar.add(std::to_string(i) + ".jpg", std::string(200'000, 'x'));
    tar.add(std::to_string(i) + ".cls", std::to_string(i % 2));
  }
  std::string archive = tar.unfinished();
  const std::size_t half = archive.size() / 2;
  std::fill(archive.begin() + static_cast<std::ptrdiff_t>(half), archive.end(), '\0');
  test::write_content(path_, {archive.begin(), archive.end()});
  EXPECT_EQ(pictures().size(), 10U);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("1 ends of shards that are more than 1 MiB of zeros")));
  archive.resize(half + (std::size_t{1} << 20U));
  test::write_content(path_, {archive.begin(), archive.end()});
  EXPECT_EQ(pictures().size(), 10U);
  EXPECT_THAT(warnings_, ElementsAre()) << "a large last record";
}

TEST_F(Shard, RejectsDuplicateKeysLikeWebDataset) {
  write({"1.jpg", "1.cls", "1.jpg", "1.cls"});
  EXPECT_THAT(refusal(), HasSubstr("a.tar: 1.jpg: occurs twice in one sample"));
  write({"1.cls", "1.jpg", "1.cls"});
  EXPECT_THAT(refusal(), HasSubstr("a.tar: 1.cls: occurs twice in one sample"));
  write({"1.jpg", "1.JPG", "1.cls"});
  EXPECT_THAT(refusal(), HasSubstr("1.JPG: occurs twice in one sample"));
  write({"a/1.jpg", "a/1.cls", "b/1.jpg", "b/1.cls", "a/1.jpg", "a/1.cls"});  // not one after the other: samples
  EXPECT_EQ(pictures().size(), 3U);
}

TEST_F(Shard, RejectsTwoImagesWithTheSameKey) {
  write({"1.jpg", "1.png", "1.cls"});
  EXPECT_THAT(refusal(), HasSubstr("a.tar: 1.png: is a second picture with this key, besides .jpg"));
  write({"1.jpg", "1.mask.png", "1.cls", "1.txt"});
  EXPECT_THAT(pictures(), ElementsAre("1.jpg"));
  EXPECT_THAT(warnings_, ElementsAre());
}

TEST_F(Shard, CountsAndNamesSkippedMembers) {
  write({"1.jpg", "1.cls", "2.heic", "2.cls", "3.heic", "3.cls", "4.cls", "5.x.jpg", "5.x.cls", "5.y.jpg", "5.y.cls",
         "6.json", "7.jpg", "7.cls", "7.x.jpg", "7.x.cls"});
  EXPECT_THAT(pictures(), ElementsAre("1.jpg", "7.jpg"));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0],
              AllOf(HasSubstr(": members of its shards are left out, 7: 3 with a dot in the key (such as "),
                    HasSubstr(": 5.y.jpg)"), HasSubstr("2 with .heic and no picture"),
                    HasSubstr("1 with .cls and no picture"), HasSubstr("1 with .json and no picture")));
  write({"1.x.jpg", "1.x.cls"});
  EXPECT_THAT(refusal(), HasSubstr("only other files, 1: 1 with a dot in the key"));
}

TEST_F(Shard, AcceptsExtensionsInAnyCase) {
  write({"1.JPEG", "1.CLS", "2.Png", "2.Cls"});
  EXPECT_THAT(pictures(), ElementsAre("1.JPEG", "2.Png"));
}

TEST_F(Shard, IgnoresAppleDoubleMembers) {
  write({"./._d", "d/._1.cls", "d/1.cls", "d/._1.jpg", "d/1.jpg", "README", "d/2.jpg", "LICENSE", "d/2.cls"});
  EXPECT_THAT(pictures(), ElementsAre("d/1.jpg", "d/2.jpg"));
  EXPECT_THAT(warnings_, ElementsAre());
  write({"1.jpg", "1.cls", ".2.jpg", ".2.cls"});
  EXPECT_THAT(pictures(), ElementsAre("1.jpg"));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("2 hidden by a dot"));
}

TEST_F(Shard, RejectsALinkInPlaceOfAnImage) {
  for (const char type : {'1', '2'}) {
    TarWriter tar;
    tar.add("1.jpg", "1.jpg");
    tar.add("1.cls", "0");
    tar.add("notes.txt", "", type);
    write_archive(tar);
    EXPECT_THAT(pictures(), ElementsAre("1.jpg"));
    tar.add("2.jpg", "", type);
    write_archive(tar);
    EXPECT_THAT(refusal(), HasSubstr("a.tar: 2.jpg: is a link without the file's content"));
  }
}

TEST_F(Shard, RejectsSparseMembersAndCompressedShards) {
  const auto run = [&](const std::string& command) {
    ASSERT_EQ(std::system(("cd '" + folder_.path() + "' && " + command).c_str()), 0);
  };
  run("truncate -s 1M 1.jpg && echo end >> 1.jpg && echo 0 > 1.cls");
  for (const char* const format : {"gnu", "pax"}) {
    run(std::string("tar --sparse --format=") + format + " -cf a.tar 1.jpg 1.cls");
    EXPECT_THAT(refusal(), HasSubstr("a.tar: holds 1.jpg as a sparse file")) << format;
  }
  run("tar czf a.tar 1.jpg 1.cls");
  EXPECT_THAT(refusal(), HasSubstr("a.tar: is compressed with gzip"));
  run("printf '\\050\\265\\057\\375 and so on' > a.tar");
  EXPECT_THAT(refusal(), HasSubstr("a.tar: is compressed with zstd"));
}

TEST_F(Shard, RejectsAnAbsurdLabelWithoutAllocatingItsClasses) {
  TarWriter tar;
  tar.add("1.jpg", "x");
  tar.add("1.cls", "9999999");
  write_archive(tar);
  EXPECT_THAT(refusal(), HasSubstr("picture 1 has label 9999999, but there is only 1 picture"));
  TarWriter fine;
  fine.add("1.jpg", "x");
  fine.add("1.cls", "99999");
  write_archive(fine);
  open();
  ASSERT_TRUE(source_);
  EXPECT_EQ((*source_)->class_names().size(), 100'000U);
}

TEST_F(Shard, ReadsClassNamesFromTheParentFolder) {
  fs::create_directories(folder_.file("train"));
  fs::create_directories(folder_.file("other"));
  const std::string names = "cat\ndog\n";
  test::write_content(folder_.file("classes.txt"), {names.begin(), names.end()});
  path_ = folder_.file("train/a.tar");
  write({"1.jpg", "1.cls"});
  open();
  EXPECT_THAT((*source_)->class_names(), ElementsAre("cat", "dog"));
  test::write_content(folder_.file("train/classes.txt"), {'a', '\n', 'b', '\n', 'c'});
  open();
  EXPECT_THAT((*source_)->class_names(), ElementsAre("a", "b", "c"));
  path_ = folder_.file("other/a.tar");
  write({"1.jpg", "1.cls"});
  open();
  EXPECT_THAT((*source_)->class_names(), ElementsAre("0", "1"));
}

TEST_F(Shard, WarnsIfAllImagesHaveOneLabel) {
  write({"a/1.jpg", "a/1.cls", "b/1.jpg", "b/1.cls"});
  EXPECT_EQ(pictures().size(), 2U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("all 2 pictures have the label 1"));
  write({"a/1.jpg", "a/1.cls", "b/2.jpg", "b/2.cls"});
  EXPECT_EQ(pictures().size(), 2U);
  EXPECT_THAT(warnings_, ElementsAre());
}

}  // namespace
}  // namespace rollcall::data
