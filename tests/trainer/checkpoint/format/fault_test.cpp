#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/format/folder.h"

namespace rollcall::checkpoint::format {
namespace {

std::size_t first_offset_of(const std::string& path, const std::vector<float>& values) {
  const std::vector<char> bytes = file_bytes(path);
  const auto wanted = std::as_bytes(std::span(values));
  const auto* const begin = reinterpret_cast<const char*>(wanted.data());
  return static_cast<std::size_t>(std::search(bytes.begin(), bytes.end(), begin, begin + wanted.size()) -
                                  bytes.begin());
}

void flip_byte(const std::string& path, std::size_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

/// A child that ends by SIGKILL right after the `count`-th point of writing `path`; false where it finished before.
bool killed_while_writing(const std::string& path, const Content& content, int count) {
  const pid_t child = ::fork();
  if (child == 0) {
    int passed = 0;
    const auto written = write_checkpoint(path, content, {.after = [&](WritePoint) {
                                            if (++passed == count) {
                                              ::raise(SIGKILL);
                                            }
                                          }});
    ::_exit(written ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

TEST(CheckpointFaults, WriterKilledAtAnyPointLeavesTheNewFileOrThePreviousOne) {
  const SampleContent first(1);
  const SampleContent second(2);
  int points = 0;
  for (bool killed = true; killed; ++points) {
    const TemporaryFolder folder;
    ASSERT_TRUE(write_checkpoint(folder.file(checkpoint_name(1)), first.content, {}));
    killed = killed_while_writing(folder.file(checkpoint_name(2)), second.content, points + 1);
    const auto found = load_latest(folder.path());
    ASSERT_TRUE(found) << found.error().message();
    const bool is_second = found->path == folder.file(checkpoint_name(2));
    EXPECT_TRUE(same_content(found->loaded.content, is_second ? second.content : first.content))
        << "point " << points + 1;
    EXPECT_TRUE(found->warnings.empty());
    remove_stale_temporaries(folder.path());
    EXPECT_EQ(folder.names().size(), is_second ? 2U : 1U) << "point " << points + 1;
  }
  EXPECT_EQ(points, 7);  // structures, one block, synced, sealed, verified, renamed, and the one that nobody killed
}

/// Runs `write` in a child whose files cannot grow beyond `limit` bytes, as on a full disk; its exit code.
int exit_code_under_limit(rlim_t limit, const std::string& path, const Content& content) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit size{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &size);
    const auto written = write_checkpoint(path, content, {});
    const bool told = written || written.error().message().find("File too large") != std::string::npos;
    ::_exit(told ? to_int(written ? ExitCode::Success : written.error().exit_code()) : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CheckpointFaults, FullDiskIsAnErrorThatLeavesNoTemporaryFile) {
  const TemporaryFolder folder;
  const SampleContent first(1);
  const SampleContent second(2);
  const std::string path = folder.file("a.h5");
  ASSERT_TRUE(write_checkpoint(path, first.content, {}));
  const auto whole = static_cast<rlim_t>(std::filesystem::file_size(path));
  for (rlim_t limit = 0; limit < whole; limit += 997) {
    const int code = exit_code_under_limit(limit, path, second.content);
    EXPECT_TRUE(code == to_int(ExitCode::InputOutput) || code == to_int(ExitCode::CannotCreate))
        << limit << ": " << code;
    EXPECT_EQ(folder.names(), std::vector<std::string>{"a.h5"}) << limit;
  }
  EXPECT_TRUE(same_content(read_checkpoint(path)->content, first.content));
  EXPECT_EQ(exit_code_under_limit(whole, path, second.content), 0);
}

TEST(CheckpointFaults, CorruptedWritesAreDetectedBeforeTheRename) {
  const TemporaryFolder folder;
  const SampleContent sample(1);
  const std::string temporary = temporary_name(folder.file("a.h5"));
  for (const ReadBack read_back : {ReadBack::Device, ReadBack::Memory}) {
    const auto written = write_checkpoint(folder.file("a.h5"), sample.content,
                                          {.read_back = read_back, .after = [&](WritePoint point) {
                                             if (point == WritePoint::BlockWritten) {
                                               flip_byte(temporary, first_offset_of(temporary, sample.weight));
                                             }
                                           }});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().kind, ErrorKind::InputOutput);
    EXPECT_NE(written.error().reason.find("/model/conv/weight"), std::string::npos) << written.error().reason;
    EXPECT_TRUE(folder.names().empty());
  }
}

/// Reads a file that may be damaged: either an Error, or exactly what was written.
void expect_detected_or_harmless(const std::string& path, const Content& original, const std::string& what,
                                 int& detected) {
  const auto read = read_checkpoint(path);
  if (read) {
    EXPECT_TRUE(same_content(read->content, original)) << what;
  } else {
    ++detected;
    EXPECT_EQ(read.error().kind, ErrorKind::BadData) << what << ": " << read.error().message();
  }
}

TEST(CheckpointFaults, EveryFlippedByteIsDetectedOrHarmless) {
  const TemporaryFolder folder;
  const SampleContent sample(5);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), sample.content, {}));
  const std::vector<char> sound = file_bytes(folder.file("a.h5"));
  std::mt19937_64 random(20240607);
  constexpr int kTrials = 3000;
  int detected = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<char> damaged = sound;
    const std::size_t at = random() % damaged.size();
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255));
    write_file(folder.file("b.h5"), damaged);
    expect_detected_or_harmless(folder.file("b.h5"), sample.content, "byte " + std::to_string(at), detected);
  }
  EXPECT_GT(detected, kTrials / 2);  // most of the file is data
}

/// Reads files that are damaged here and there, then ends the program in the ordinary way.
[[noreturn]] void read_damaged_files_and_exit(const TemporaryFolder& folder) {
  const std::vector<char> sound = file_bytes(folder.file("a.h5"));
  std::mt19937_64 random(20240607);
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<char> damaged = sound;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    write_file(folder.file("b.h5"), damaged);
    static_cast<void>(read_checkpoint(folder.file("b.h5")).has_value());
  }
  std::exit(0);
}

TEST(CheckpointFaults, ProcessThatReadDamagedFilesExitsWithoutOutput) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), SampleContent(5).content, {}));
  EXPECT_EXIT(read_damaged_files_and_exit(folder), testing::ExitedWithCode(0), "^$");
}

TEST(CheckpointFaults, EveryTruncationIsDetected) {
  const TemporaryFolder folder;
  const SampleContent sample(5);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), sample.content, {}));
  const std::vector<char> sound = file_bytes(folder.file("a.h5"));
  std::mt19937_64 random(42);
  for (int trial = 0; trial < 300; ++trial) {
    const auto length = static_cast<std::ptrdiff_t>(random() % sound.size());
    write_file(folder.file("b.h5"), std::vector<char>(sound.begin(), sound.begin() + length));
    EXPECT_FALSE(read_checkpoint(folder.file("b.h5"))) << length;
  }
}

TEST(CheckpointFaults, DamagedFilesPrintNothingToStderr) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), SampleContent(5).content, {}));
  std::vector<char> bytes = file_bytes(folder.file("a.h5"));
  bytes[60] = static_cast<char>(~bytes[60]);
  write_file(folder.file("a.h5"), bytes);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(read_checkpoint(folder.file("a.h5")));
  EXPECT_FALSE(write_checkpoint(folder.file("no/such/a.h5"), {}, {}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace rollcall::checkpoint::format
