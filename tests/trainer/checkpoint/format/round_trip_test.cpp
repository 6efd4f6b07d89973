#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/format/commit_header.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::format {
namespace {

/// Puts a changed manifest at the end of a file, with a commit header that vouches for it.
void rewrite_manifest(const std::string& path, const std::function<void(std::string&)>& change) {
  std::vector<char> bytes = file_bytes(path);
  auto seal = decode_commit_header(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(seal);
  std::string text(bytes.data() + seal->manifest_offset, seal->manifest_bytes);
  change(text);
  bytes.resize(seal->manifest_offset);
  bytes.insert(bytes.end(), text.begin(), text.end());
  seal->manifest_bytes = text.size();
  seal->manifest_crc32c = storage::crc32c(std::as_bytes(std::span(text)));
  seal->file_bytes = bytes.size();
  std::memcpy(bytes.data(), encode_commit_header(*seal).data(), kCommitHeaderBytes);
  write_file(path, bytes);
}

TEST(CheckpointFile, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const SampleContent sample(7);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), sample.content, {}));
  const auto read = read_checkpoint(folder.file("a.h5"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(same_content(read->content, sample.content));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.h5"});
}

TEST(CheckpointFile, StoresEveryElementType) {
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

TEST(CheckpointFile, RecordsWriterVersionAndTime) {
  const TemporaryFolder folder;
  ASSERT_TRUE(
      write_checkpoint(folder.file("a.h5"), SampleContent(1).content, {.writer = "w 1", .torch_version = "2.15.0"}));
  const auto reader = CheckpointReader::open(folder.file("a.h5"));
  ASSERT_TRUE(reader);
  const FileInfo& info = reader->info();
  EXPECT_EQ(info.writer, "w 1");
  EXPECT_EQ(info.torch_version, "2.15.0");
  EXPECT_EQ(info.format_version, "1.1");
  EXPECT_EQ(info.created.size(), std::string("2025-01-31T23:59:59Z").size());
}

TEST(CheckpointFile, ReplacesAnExistingFileOfTheSameName) {
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

TEST(CheckpointFile, RefusesANewerMajorVersion) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), SampleContent(1).content, {}));
  std::vector<char> bytes = file_bytes(folder.file("a.h5"));
  auto seal = decode_commit_header(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(seal);
  seal->major_version = 2;
  std::memcpy(bytes.data(), encode_commit_header(*seal).data(), kCommitHeaderBytes);
  write_file(folder.file("a.h5"), bytes);
  const auto read = read_checkpoint(folder.file("a.h5"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::Mismatch);
  EXPECT_EQ(examine(folder.file("a.h5"), VerifyLevel::Full).state, FileState::Newer);
}

TEST(CheckpointFile, RejectsAFileWithoutCommitHeader) {
  const TemporaryFolder folder;
  const SampleContent sample(3);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), sample.content, {}));
  std::vector<char> bytes = file_bytes(folder.file("a.h5"));
  bytes.erase(bytes.begin(), bytes.begin() + kUserBlockBytes);  // as h5repack writes it
  write_file(folder.file("a.h5"), bytes);
  const auto read = read_checkpoint(folder.file("a.h5"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::BadData);
  EXPECT_THAT(read.error().message(),
              testing::HasSubstr("a.h5: has no commit header: another program rewrote the file"));
}

TEST(CheckpointFile, IgnoresUnknownFieldsAndKindsInTheManifest) {
  const TemporaryFolder folder;
  const SampleContent sample(3);
  ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), sample.content, {}));
  rewrite_manifest(folder.file("a.h5"), [](std::string& text) {
    text.replace(text.find("{"), 1, R"({"novelty":[1,2],)");
    const std::string known = R"("kind":"value","dtype":"int64")";
    text.replace(text.find(known), known.size(), R"("kind":"curve","dtype":"int64")");
  });
  const auto read = read_checkpoint(folder.file("a.h5"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->content.tensors.size(), sample.content.tensors.size());
  EXPECT_EQ(read->content.values.size(), sample.content.values.size() - 1);
  EXPECT_TRUE(verify_file(folder.file("a.h5"), VerifyLevel::Full));
}

TEST(CheckpointFile, RejectsAValueLargerThanMemoryByName) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  constexpr std::int64_t kElements = std::int64_t{1} << 40;
  ASSERT_TRUE(write_checkpoint(path, SampleContent(3).content, {}));
  const std::string name = R"("name":"/sampler/seed")";
  std::string end;
  rewrite_manifest(path, [&](std::string& text) {
    const std::size_t begin = text.rfind('{', text.find(name));
    end = std::to_string((std::filesystem::file_size(path) / 4096 + 2) * 4096);
    const std::string row = R"({"name":"/sampler/seed","kind":"value","dtype":"uint64","element_bytes":8,"shape":[)" +
                            std::to_string(kElements) + R"(],"offset":)" + end + R"(,"bytes":)" +
                            std::to_string(kElements * 8) + R"(,"crc32c":0})";
    text.replace(begin, text.find('}', begin) + 1 - begin, row);
    text.replace(text.find(R"("piece_bytes":1048576)"), 21, R"("piece_bytes":9223372036854775807)");
  });
  std::vector<char> bytes = file_bytes(path);
  auto seal = decode_commit_header(std::as_bytes(std::span(bytes)));
  seal->file_bytes = std::stoull(end) + static_cast<std::uint64_t>(kElements) * 8;
  std::memcpy(bytes.data(), encode_commit_header(*seal).data(), kCommitHeaderBytes);
  write_file(path, bytes);
  std::filesystem::resize_file(path, seal->file_bytes);  // a hole
  const auto read = read_checkpoint(path);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message(),
              testing::HasSubstr("/sampler/seed has 8796093022208 bytes, more than this process's memory"));
}

TEST(CheckpointFile, RejectsInconsistentManifests) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> changes{
      {R"("shape":[16,3,8,8])", R"("shape":[16,3,8,9])"},
      {R"("shape":[16,3,8,8])", R"("shape":[4611686018427387904,4,8,8])"},
      {R"("shape":[16,3,8,8])", R"("shape":[-16,-3,8,8])"},
      {R"("offset":)", R"("offset":9)"},
      {R"("bytes":12288)", R"("bytes":12287)"},
      {R"("piece_bytes":1048576)", R"("piece_bytes":0)"},
      {R"("piece_bytes":1048576)", R"("piece_bytes":1024)"},
      {R"("datasets":[{)", R"("datasets":[7,{)"},
      {R"("datasets":[{)", R"("novelty":)" + std::string(20, '[') + std::string(20, ']') + R"(,"datasets":[{)"},
      {R"("format":"rollcall-checkpoint")", R"("format":"something")"},
  };
  for (const auto& [from, to] : changes) {
    ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), SampleContent(3).content, {}));
    rewrite_manifest(folder.file("a.h5"), [&from = from, &to = to](std::string& text) {
      ASSERT_NE(text.find(from), std::string::npos) << from;
      text.replace(text.find(from), from.size(), to);
    });
    const auto read = read_checkpoint(folder.file("a.h5"));
    ASSERT_FALSE(read) << to;
    EXPECT_EQ(read.error().kind, ErrorKind::BadData) << to;
  }
}

TEST(CheckpointFile, RejectsFilesThatAreNoCheckpointsWithAReason) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_checkpoint(folder.file("absent.h5")).error().kind, ErrorKind::NoInput);
  EXPECT_EQ(read_checkpoint(folder.path()).error().kind, ErrorKind::NoInput);
  ASSERT_EQ(::mkfifo(folder.file("pipe.h5").c_str(), 0600), 0);  // to which nobody ever writes
  EXPECT_EQ(read_checkpoint(folder.file("pipe.h5")).error().kind, ErrorKind::NoInput);
  write_file(folder.file("text.h5"), {'h', 'e', 'l', 'l', 'o'});
  write_file(folder.file("nothing.h5"), {});
  for (const char* name : {"text.h5", "nothing.h5"}) {
    const auto read = read_checkpoint(folder.file(name));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::BadData);
    EXPECT_EQ(read.error().value, folder.file(name));
  }
}

TEST(CheckpointFile, ReportsAMissingFolderWhenWriting) {
  const TemporaryFolder folder;
  const auto written = write_checkpoint(folder.file("no/such/a.h5"), SampleContent(1).content, {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::CannotCreate);
  EXPECT_NE(written.error().message().find("No such file or directory"), std::string::npos)
      << written.error().message();
}

}  // namespace
}  // namespace rollcall::checkpoint::format
