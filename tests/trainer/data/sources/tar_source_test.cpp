#include "trainer/data/sources/tar_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>

#include "tests/support/tar_writer.h"
#include "tests/trainer/data/packed/sample_file.h"
#include "trainer/data/sources/class_names.h"
#include "trainer/data/sources/tar_index.h"
#include "trainer/storage/file.h"

namespace rollcall::data {
namespace {

using test::TarWriter;
using test::TemporaryFolder;
using testing::HasSubstr;

void write_text(const std::string& path, const std::string& text) {
  test::write_content(path, {text.begin(), text.end()});
}

Result<std::shared_ptr<const ImageSource>> opened(const std::vector<std::string>& shards) {
  SourceIndices indices;
  return TarSource::open(shards, indices);
}

Result<std::vector<TarMember>> index_of(const std::string& archive) {
  std::vector<TarMember> members;
  const auto read_at = [&](std::span<std::byte> bytes, std::uint64_t at) {
    if (at + bytes.size() > archive.size()) {
      ADD_FAILURE() << "read outside of the archive";
      return false;
    }
    std::memcpy(bytes.data(), archive.data() + at, bytes.size());
    return true;
  };
  const auto read = index_tar(archive.size(), read_at, [&](const TarMember& member) {
    members.push_back(member);
    return Result<void>();
  });
  return read ? Result<std::vector<TarMember>>(members) : read.error();
}

TarWriter two_pictures() {
  TarWriter tar;
  tar.add("data/", "", '5');
  tar.add("data/0001.jpg", "first picture");
  tar.add("data/0001.cls", "1");
  tar.add("data/0001.json", "{}");
  tar.add("data/0002.cls", "0\n");
  tar.add("data/0002.PNG", std::string(1000, 'x'));
  return tar;
}

std::string text_of(const ImageSource::Sample& sample) {
  return {reinterpret_cast<const char*>(sample.image.bytes.data()), sample.image.bytes.size()};
}

TEST(TarIndex, FindsFilesWithAllKindsOfNames) {
  const std::string longest = std::string(90, 'a') + "/" + std::string(90, 'b') + "/hühner 鸡.jpg";
  TarWriter tar;
  tar.add("plain.jpg", std::string(512, '1'));  // a block without padding
  tar.add_gnu_long(longest, "22");
  tar.add_pax(longest, "333");
  tar.add("link.jpg", "", '2');
  tar.add_gnu_long(longest, "22");
  tar.add("last.jpg", "4444");
  const auto members = index_of(tar.finished());
  ASSERT_TRUE(members) << members.error().message();
  ASSERT_EQ(members->size(), 5U);
  EXPECT_EQ((*members)[4].name, "last.jpg");
  EXPECT_EQ((*members)[0].name, "plain.jpg");
  EXPECT_EQ((*members)[1].name, longest);
  EXPECT_EQ((*members)[2].name, longest);
  EXPECT_EQ((*members)[2].bytes, 3U);
}

TEST(TarIndex, AcceptsAMissingEndButRejectsATruncatedMember) {
  const std::string archive = two_pictures().unfinished();
  EXPECT_TRUE(index_of(archive));
  std::size_t refused = 0;
  for (std::size_t cut = 0; cut < archive.size(); cut += 31) {
    const auto members = index_of(archive.substr(0, cut));
    refused += members ? 0U : 1U;
    for (const TarMember& member : members ? *members : std::vector<TarMember>()) {
      EXPECT_LE(member.offset + member.bytes, cut);
    }
  }
  EXPECT_GT(refused, 90U);
}

TEST(TarIndex, RejectsASecondArchiveAfterTheEnd) {
  const std::string archive = two_pictures().finished();
  EXPECT_TRUE(index_of(archive + std::string(20 * 512, '\0')));
  EXPECT_TRUE(index_of(archive + std::string(4000, 'x')));  // whatever that is, nobody reads it as an archive
  for (const std::size_t blocks : {18U, 5000U}) {
    const auto joined = index_of(archive + std::string(blocks * 512, '\0') + archive);
    ASSERT_FALSE(joined) << blocks;
    EXPECT_THAT(joined.error().message(), HasSubstr("holds a second archive after its end, at byte "));
  }
  EXPECT_FALSE(index_of(archive + std::string(1024, 'x') + archive));  // a part of one was overwritten
}

TEST(TarIndex, DetectsEveryChangedByteOfAHeader) {
  const std::string archive = two_pictures().finished();
  for (std::size_t at = 512; at < 1024; ++at) {
    std::string changed = archive;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const auto members = index_of(changed);
    const bool is_of_the_checksum = at >= 512 + 148 && at < 512 + 156;  // another way to write the same number
    EXPECT_TRUE(!members || is_of_the_checksum) << at;
  }
}

TEST(TarSource, ReturnsImagesWithTheirLabels) {
  const TemporaryFolder folder;
  write_text(folder.file("a.tar"), two_pictures().finished());
  TarWriter second;
  second.add("data.v2/0003.jpeg", "third");
  second.add("data.v2/0003.cls", "3");
  write_text(folder.file("b.tar"), second.finished());
  const auto source = opened({folder.file("a.tar"), folder.file("b.tar")});
  ASSERT_TRUE(source) << source.error().message();
  ASSERT_EQ((*source)->size(), 3);
  EXPECT_THAT((*source)->class_names(), testing::ElementsAre("0", "1", "2", "3"));
  FetchBuffer buffer;
  const auto third = (*source)->fetch(2, buffer);
  ASSERT_TRUE(third);
  EXPECT_EQ(text_of(*third), "third");
  EXPECT_EQ(third->label, 3);
  const auto first = (*source)->fetch(0, buffer);
  EXPECT_EQ(text_of(*first), "first picture");
  EXPECT_EQ(first->label, 1);
  EXPECT_EQ((*source)->fetch(1, buffer)->label, 0);
  EXPECT_EQ((*source)->describe(2), folder.file("b.tar") + ": data.v2/0003");
}

TEST(TarSource, ReadsClassNamesBesideTheShards) {
  const TemporaryFolder folder;
  write_text(folder.file("a.tar"), two_pictures().finished());
  write_text(folder.file("classes.txt"), "cat\nred panda\r\n");
  EXPECT_THAT((*opened({folder.file("a.tar")}))->class_names(), testing::ElementsAre("cat", "red panda"));
  write_text(folder.file("class_names.json"), R"(["x", "y", "z"])");
  EXPECT_THAT((*opened({folder.file("a.tar")}))->class_names(), testing::ElementsAre("x", "y", "z"));
  write_text(folder.file("class_names.json"), R"(["x"])");
  EXPECT_THAT(opened({folder.file("a.tar")}).error().message(),
              HasSubstr("picture data/0001 has label 1, but there is 1 class name"));
  write_text(folder.file("class_names.json"), R"({"x": 1})");
  EXPECT_THAT(opened({folder.file("a.tar")}).error().message(),
              HasSubstr("is not a JSON list of at most 16777216 strings"));
}

TEST(TarSource, ReadsLongListsOfClassNamesAndRefusesOnesThatWouldFillTheMemory) {
  const TemporaryFolder folder;
  const std::string path = folder.file("class_names.json");
  constexpr std::size_t kClasses = 1'000'000;
  std::string names = R"(["0")";
  for (std::size_t i = 1; i < kClasses; ++i) {
    names += ",\"" + std::to_string(i) + '"';
  }
  write_text(path, names + "]");
  EXPECT_THAT(class_names_in(path).value(), testing::SizeIs(kClasses));
  write_text(path, std::string(std::size_t{4} << 20U, '['));  // a parser's 400 MB
  const auto refused_with_little_memory = [&] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20U);
    const rlimit little{most, most};
    setrlimit(RLIMIT_AS, &little);
    const auto refused = class_names_in(path);
    std::_Exit(!refused && refused.error().kind == ErrorKind::BadData ? 0 : 1);
  };
  EXPECT_EXIT(refused_with_little_memory(), testing::ExitedWithCode(0), "");
}

TEST(TarSource, ReportsWhatIsWrongWithAShard) {
  const TemporaryFolder folder;
  const auto refusal = [&](const TarWriter& tar) {
    write_text(folder.file("a.tar"), tar.finished());
    const auto source = opened({folder.file("a.tar")});
    return source ? "opened" : source.error().message();
  };
  TarWriter without_label;
  without_label.add("1.jpg", "x");
  EXPECT_THAT(refusal(without_label), HasSubstr("a.tar: 1: has no label"));
  TarWriter without_second_label = two_pictures();
  without_second_label.add("data/0003.jpg", "x");
  EXPECT_THAT(refusal(without_second_label), HasSubstr("a.tar: data/0003: has no label"));
  for (const char* label : {"cat", "-1", "", "99999999999"}) {
    TarWriter bad_label;
    bad_label.add("1.cls", label);
    EXPECT_THAT(refusal(bad_label), HasSubstr("1.cls: does not hold a label"));
  }
  EXPECT_THAT(refusal(TarWriter()), HasSubstr("holds no supported pictures"));
  write_text(folder.file("page.tar"), std::string(600, '<'));
  EXPECT_THAT(opened({folder.file("page.tar")}).error().message(),
              HasSubstr("page.tar: is a damaged tar archive: the header at byte 0 is invalid"));
  EXPECT_EQ(opened({folder.file("none.tar")}).error().kind, ErrorKind::NoInput);
}

TEST(TarSource, RejectsATruncatedCopyOnAnotherNode) {
  const TemporaryFolder folder;
  write_text(folder.file("a.tar"), two_pictures().finished());
  SourceIndices indices;  // that another rank made
  ASSERT_TRUE(TarSource::open({folder.file("a.tar")}, indices));
  std::filesystem::resize_file(folder.file("a.tar"), 600);
  const auto cut = TarSource::open({folder.file("a.tar")}, indices);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind, ErrorKind::Mismatch);
  EXPECT_THAT(cut.error().message(), HasSubstr("a.tar: has 600 bytes here, but "));
}

TEST(TarSource, RejectsANamedPipeWithoutBlocking) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe.tar").c_str(), 0600), 0);
  const auto pipe = opened({folder.file("pipe.tar")});
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().kind, ErrorKind::NoInput);
}

TEST(FileStamp, OfAnOpenFileDiffersFromItsReplacement) {
  const TemporaryFolder folder;
  write_text(folder.file("a.tar"), two_pictures().finished());
  write_text(folder.file("new"), two_pictures().finished());
  const storage::File opened_before(folder.file("a.tar"), O_RDONLY);
  EXPECT_EQ(file_stamp(folder.file("a.tar"), opened_before.descriptor()), file_stamp(folder.file("a.tar")));
  std::filesystem::rename(folder.file("new"), folder.file("a.tar"));
  EXPECT_NE(file_stamp(folder.file("a.tar"), opened_before.descriptor()), file_stamp(folder.file("a.tar")));
}

TEST(TarSource, RejectsAClassNamesFileThatIsNoRegularFile) {
  const TemporaryFolder folder;
  write_text(folder.file("a.tar"), two_pictures().finished());
  ASSERT_EQ(::mkfifo(folder.file("classes.txt").c_str(), 0600), 0);
  EXPECT_THAT(opened({folder.file("a.tar")}).error().message(),
              HasSubstr("classes.txt: cannot be read: is not a regular file"));
  std::filesystem::remove(folder.file("classes.txt"));
  std::filesystem::create_symlink("/dev/zero", folder.file("classes.txt"));
  EXPECT_THAT(opened({folder.file("a.tar")}).error().message(),
              HasSubstr("classes.txt: cannot be read: is not a regular file"));
}

TEST(TarSource, TruncationWhileReadingIsAnError) {
  const TemporaryFolder folder;
  write_text(folder.file("a.tar"), two_pictures().finished());
  const auto source = opened({folder.file("a.tar")});
  ASSERT_TRUE(source);
  std::filesystem::resize_file(folder.file("a.tar"), 600);
  FetchBuffer buffer;
  const auto sample = (*source)->fetch(1, buffer);
  ASSERT_FALSE(sample);
  EXPECT_THAT(sample.error().message(), HasSubstr("became shorter"));
}

}  // namespace
}  // namespace rollcall::data
