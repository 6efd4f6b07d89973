#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/trainer/tools/pack/image_tree.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/data/sources/packed_file.h"
#include "trainer/storage/crc.h"
#include "trainer/tools/pack/pack_tree.h"
#include "trainer/tools/pack/partial_file.h"

namespace rollcall::pack {
namespace {

using test::content_of_file;
using test::Ended;
using test::pack;
using test::TemporaryFolder;
using testing::HasSubstr;

/// A tree, the packed file of an uninterrupted run, and the partial files just before the end of that run.
class Resume : public testing::Test {
 protected:
  void SetUp() override {
    test::make_tree(tree());
    pack_whole_and_in_part();
  }

  void pack_whole_and_in_part() {
    for (const char* const left : {"whole.h5", "a.h5.partial", "a.h5.partial.journal"}) {
      std::filesystem::remove(folder_.file(left));
    }
    ASSERT_EQ(pack({tree(), folder_.file("whole.h5")}).exit_code, 0);
    whole_ = content_of_file(folder_.file("whole.h5"));
    const auto input = data::PackedFile::open(folder_.file("whole.h5"))->layout().input_crc32c;
    data::SourceIndices indices;
    const auto scanned = data::scan_image_tree(tree(), indices);
    auto partial = PartialFile::open(out(), *input, false);
    ASSERT_TRUE(partial) << partial.error().message();
    Preparer preparer({});
    for (std::size_t file = 0; file < scanned->size(); ++file) {
      const auto label = static_cast<std::int32_t>(scanned->label(file));
      ASSERT_TRUE(partial->append(preparer.prepare(scanned->path(file), label)));
    }
    data_ = content_of_file(out() + ".partial");
    journal_ = content_of_file(out() + ".partial.journal");
  }

  [[nodiscard]] std::string tree() const { return folder_.file("tree"); }
  [[nodiscard]] std::string out() const { return folder_.file("a.h5"); }

  void leave(const std::vector<char>& data, const std::vector<char>& journal) const {
    std::filesystem::remove(out());
    test::write_content(out() + ".partial", data);
    test::write_content(out() + ".partial.journal", journal);
  }

  void expect_completed(const std::string& what) const {
    const Ended ended = pack({tree(), out()});
    ASSERT_EQ(ended.exit_code, 0) << what << ended.err;
    ASSERT_EQ(content_of_file(out()), whole_) << what;
  }

  TemporaryFolder folder_;
  std::vector<char> whole_;
  std::vector<char> data_;
  std::vector<char> journal_;
};

using MakeLink = void (*)(const std::filesystem::path&, const std::filesystem::path&);

TEST_F(Resume, DoesNotWriteThroughLinks) {
  for (const char* const ending : {".partial", ".partial.journal"}) {
    for (const MakeLink make :
         {MakeLink{std::filesystem::create_symlink}, MakeLink{std::filesystem::create_hard_link}}) {
      leave(data_, journal_);
      test::write_content(folder_.file("victim"), {'m', 'i', 'n', 'e'});
      std::filesystem::remove(out() + ending);
      make(folder_.file("victim"), out() + ending);
      const Ended ended = pack({tree(), out()});
      EXPECT_EQ(ended.exit_code, to_int(ExitCode::CannotCreate)) << ended.err;
      EXPECT_THAT(ended.err, HasSubstr(std::string(ending) + ": cannot be created: "));
      EXPECT_EQ(content_of_file(folder_.file("victim")), (std::vector<char>{'m', 'i', 'n', 'e'}));
      std::filesystem::remove(out() + ending);
    }
  }
}

TEST_F(Resume, RejectsAPartialFileOfAnotherUser) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  leave(data_, journal_);
  ASSERT_EQ(::chown((out() + ".partial.journal").c_str(), 4711, 4711), 0);
  const Ended ended = pack({tree(), out()});
  EXPECT_EQ(ended.exit_code, to_int(ExitCode::CannotCreate));
  EXPECT_THAT(ended.err, HasSubstr("a.h5.partial.journal: cannot be created: belongs to user 4711"));
  EXPECT_EQ(content_of_file(out() + ".partial.journal"), journal_);
}

TEST_F(Resume, ContinuesAfterAnyTruncationOfTheJournal) {
  for (std::size_t cut = 0; cut <= journal_.size(); cut += 23) {
    leave(data_, {journal_.begin(), journal_.begin() + static_cast<std::ptrdiff_t>(cut)});
    expect_completed("journal cut at " + std::to_string(cut));
  }
}

TEST_F(Resume, ContinuesAfterAnyTruncationOfTheData) {
  for (std::size_t cut = 0; cut <= data_.size(); cut += 1499) {
    leave({data_.begin(), data_.begin() + static_cast<std::ptrdiff_t>(cut)}, journal_);
    expect_completed("data cut at " + std::to_string(cut));
  }
}

TEST_F(Resume, StartsOverAfterAnOlderVersion) {
  constexpr std::ptrdiff_t kMagic = 8;
  constexpr std::ptrdiff_t kChecked = 12;
  for (const std::string magic : {"rcpack01", "rcpack02"}) {
    std::vector<char> older = journal_;
    magic.copy(older.data(), kMagic);
    const std::uint32_t checksum = storage::crc32c(std::as_bytes(std::span(older).first(kChecked)));
    std::memcpy(older.data() + kChecked, &checksum, sizeof(checksum));
    leave(data_, older);
    EXPECT_THAT(pack({tree(), out()}).out, testing::Not(HasSubstr("of an earlier run"))) << magic;
    EXPECT_EQ(content_of_file(out()), whole_) << magic;
  }
}

TEST_F(Resume, IgnoresDataWithoutMatchingChecksum) {
  for (std::size_t at = 4096; at < data_.size(); at += 2111) {
    auto changed = data_;
    changed[at] = static_cast<char>(changed[at] ^ 8);
    leave(changed, journal_);
    expect_completed("data changed at " + std::to_string(at));
  }
  for (std::size_t at = 0; at < journal_.size(); at += 29) {
    auto changed = journal_;
    changed[at] = static_cast<char>(changed[at] ^ 8);
    leave(data_, changed);
    expect_completed("journal changed at " + std::to_string(at));
  }
}

TEST_F(Resume, RepeatsFilesThatChangedMeanwhile) {
  leave(data_, journal_);
  test::put(tree() + "/cat/1.jpg", test::small_jpeg(50, 50, 99));
  ASSERT_EQ(pack({tree(), out()}).exit_code, 0);
  ASSERT_EQ(pack({tree(), folder_.file("fresh.h5")}).exit_code, 0);
  EXPECT_EQ(content_of_file(out()), content_of_file(folder_.file("fresh.h5")));
  EXPECT_NE(content_of_file(out()), whole_);
}

TEST_F(Resume, RepeatsRewrittenFilesOfEqualSize) {
  leave(data_, journal_);
  const std::string path = tree() + "/cat/1.jpg";
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  const Ended ended = pack({"--json", tree(), out()});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(ended.out)["files"][0]["from_earlier_run"], 1);  // the one before it
}

TEST_F(Resume, ContinuesFromTheLastRecordBeforeAGap) {
  const auto journal = read_journal(std::as_bytes(std::span(journal_)));
  ASSERT_TRUE(journal);
  auto with_gap = journal_;
  with_gap.erase(with_gap.begin() + static_cast<std::ptrdiff_t>(journal->ends[2]),
                 with_gap.begin() + static_cast<std::ptrdiff_t>(journal->ends[3]));
  leave(data_, with_gap);
  expect_completed("without the fourth record");
}

TEST_F(Resume, IgnoresRecordsBehindAGapEvenForEqualFiles) {
  data::SourceIndices indices;
  const auto scanned = data::scan_image_tree(tree(), indices);
  const std::string third = scanned->path(2);
  const std::string fourth = scanned->path(3);
  std::filesystem::copy_file(third, fourth, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::last_write_time(fourth, std::filesystem::last_write_time(third));
  pack_whole_and_in_part();
  const auto journal = read_journal(std::as_bytes(std::span(journal_)));
  ASSERT_TRUE(journal);
  auto with_gap = journal_;
  with_gap.erase(with_gap.begin() + static_cast<std::ptrdiff_t>(journal->ends[1]),
                 with_gap.begin() + static_cast<std::ptrdiff_t>(journal->ends[2]));
  leave(data_, with_gap);
  expect_completed("without the third record");
}

TEST(Journal, StopsAtADamagedRecord) {
  JournalRecord record{
      .outcome = Outcome::Bad, .kind = ErrorKind::BadData, .source = {12, 34}, .entry = {}, .note = "is empty"};
  std::vector<std::byte> bytes = journal_header(7);
  const std::vector<std::byte> one = journal_bytes(record);
  bytes.insert(bytes.end(), one.begin(), one.end());
  const auto whole = read_journal(bytes);
  ASSERT_TRUE(whole);
  ASSERT_EQ(whole->records.size(), 1U);
  EXPECT_EQ(whole->records[0].note, "is empty");
  for (std::size_t at = journal_header_bytes(); at < bytes.size(); ++at) {
    auto changed = bytes;
    changed[at] ^= std::byte{1};
    EXPECT_THAT(read_journal(changed)->records, testing::IsEmpty()) << at;
  }
}

TEST_F(Resume, RejectsOtherOptionsOrFilesUnlessOverwriting) {
  leave(data_, journal_);
  const Ended ended = pack({"--resize=40", tree(), out()});
  EXPECT_EQ(ended.exit_code, 76);
  EXPECT_THAT(ended.err, HasSubstr("was started with other options or other files"));
  test::put(tree() + "/cat/new.jpg", test::small_jpeg(50, 50, 99));
  EXPECT_EQ(pack({tree(), out()}).exit_code, 76);
  EXPECT_EQ(pack({"--overwrite", tree(), out()}).exit_code, 0);
}

TEST_F(Resume, ContinuesAnInterruptedOverwrite) {
  leave(data_, journal_);
  test::put_text(out(), "something else");
  EXPECT_THAT(pack({"--overwrite", tree(), out()}).out, HasSubstr("9 images of an earlier run, kept"));
  EXPECT_EQ(content_of_file(out()), whole_);
}

TEST_F(Resume, RejectsASecondWriter) {
  const auto first = PartialFile::open(folder_.file("b.h5"), 1, false);
  ASSERT_TRUE(first);
  const auto second = PartialFile::open(folder_.file("b.h5"), 1, false);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message(), HasSubstr("is being written by another process"));
}

/// The program, as a child.
class Child {
 public:
  Child(const std::string& tree, const std::string& out, const std::string& before = "") {
    const std::string command = before + "exec '" ROLLCALL_PACK_PROGRAM "' --num-workers=1 --progress=none '" + tree +
                                "' '" + out + "' > '" + out + ".out' 2> '" + out + ".err'";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv("SOURCE_DATE_EPOCH", "1767323045", 1);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
  }
  void send(int signal) const { ::kill(pid_, signal); }
  /// Exit code, or -signal.
  [[nodiscard]] int wait() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
};

/// Until the file has more than so many bytes.
void wait_for_size(const std::string& path, std::uintmax_t bytes) {
  std::error_code absent;
  while (std::filesystem::file_size(path, absent) + 1 <= bytes + 1) {
    std::this_thread::yield();
  }
}

/// One picture under so many names that packing takes seconds.
void make_large_tree(const TemporaryFolder& folder, int count) {
  test::put(folder.file("large/a/0.jpg"), test::small_jpeg(600, 600, 1));
  for (int i = 1; i < count; ++i) {
    std::filesystem::create_hard_link(folder.file("large/a/0.jpg"),
                                      folder.file("large/a/" + std::to_string(i) + ".jpg"));
  }
}

TEST(ResumeProcess, KilledAndInterruptedRunsGiveTheSameFile) {
  const TemporaryFolder folder;
  make_large_tree(folder, 600);
  const std::string out = folder.file("a.h5");
  const std::string journal = out + ".partial.journal";
  const Child killed(folder.file("large"), out);
  wait_for_size(journal, 500);
  killed.send(SIGKILL);
  EXPECT_EQ(killed.wait(), -SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(out));
  const auto left = std::filesystem::file_size(journal);

  const Child interrupted(folder.file("large"), out);
  wait_for_size(journal, left + 500);
  interrupted.send(SIGINT);
  EXPECT_EQ(interrupted.wait(), 75);
  const auto err = content_of_file(out + ".err");
  EXPECT_THAT(std::string(err.begin(), err.end()), HasSubstr("try running the same command again to continue"));
  EXPECT_FALSE(std::filesystem::exists(out));

  const Ended rest = pack({folder.file("large"), out});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("of an earlier run"));
  ASSERT_EQ(pack({folder.file("large"), folder.file("b.h5")}).exit_code, 0);
  EXPECT_EQ(content_of_file(out), content_of_file(folder.file("b.h5")));
}

TEST(ResumeProcess, ContinuesAfterAFullDisk) {
  const TemporaryFolder folder;
  test::make_tree(folder.file("tree"));
  const std::string out = folder.file("a.h5");
  EXPECT_EQ(Child(folder.file("tree"), out, "trap '' XFSZ; ulimit -f 20; ").wait(), 74);  // blocks of 512 bytes
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_TRUE(std::filesystem::exists(out + ".partial"));
  EXPECT_EQ(Child(folder.file("tree"), out).wait(), 0);
  EXPECT_EQ(pack({"verify", out}).exit_code, 0);
}

}  // namespace
}  // namespace rollcall::pack
