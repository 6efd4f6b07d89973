// Any bytes as the manifest of a checkpoint whose seal vouches for it, as its seal, and as changes of a sound file.
//
// The first byte chooses: 0 manifest, 1 seal, else changes: 3 bytes where, 1 byte how many, then these; a rest of three
// bytes cuts the file.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/require.h"
#include "trainer/checkpoint/format/commit_header.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/writer.h"
#include "trainer/storage/crc.h"
#include "trainer/storage/file.h"

namespace {

using namespace rollcall;
using namespace rollcall::checkpoint::format;
using Bytes = std::span<const std::byte>;

const std::string& path() {
  static const std::string name = "/dev/shm/rollcall-checkpoint-fuzz-" + std::to_string(::getpid()) + ".h5";
  static const int removed = std::atexit([] { ::unlink(name.c_str()); });
  (void)removed;
  return name;
}

std::vector<std::byte> make_sound_file() {
  std::vector<float> values(3000, 0.5F);
  Content content;
  content.tensors = {{"/model/w", "w", DType::Float32, {3, 1000}, std::as_bytes(std::span(values))},
                     {"/model/s", "s", DType::Float32, {}, std::as_bytes(std::span(values)).first(4)}};
  content.values = {{"/progress/global_step", std::int64_t{7}}, {"/model_keys", std::vector<std::string>{"w", "s"}}};
  fuzz::require(write_checkpoint(path(), content, {.read_back = ReadBack::Memory}).has_value(),
                "the sample is written");
  const storage::File file(path(), O_RDONLY);
  std::vector<std::byte> bytes(*file.regular_size());
  fuzz::require(file.read_at(bytes, 0) == bytes.size(), "the sample is read");
  return bytes;
}

const std::vector<std::byte>& sound_file() {
  static const std::vector<std::byte> bytes = make_sound_file();
  return bytes;
}

void put_commit_header(std::vector<std::byte>& file, const CommitHeader& header) {
  const auto bytes = encode_commit_header(header);
  std::copy(bytes.begin(), bytes.end(), file.begin());
}

std::vector<std::byte> with_manifest(Bytes text) {
  std::vector<std::byte> file = sound_file();
  CommitHeader header = *decode_commit_header(file);
  file.resize(header.manifest_offset);
  file.insert(file.end(), text.begin(), text.end());
  header.manifest_bytes = text.size();
  header.manifest_crc32c = storage::crc32c(text);
  header.file_bytes = file.size();
  put_commit_header(file, header);
  return file;
}

std::vector<std::byte> with_seal(Bytes input) {
  std::vector<std::byte> file = sound_file();
  std::array<std::uint64_t, 5> numbers{};
  std::memcpy(numbers.data(), input.data(), std::min(input.size(), sizeof numbers));
  CommitHeader header = *decode_commit_header(file);
  header.major_version = static_cast<std::uint32_t>(numbers[0] % 3);
  header.manifest_offset = numbers[1];
  header.manifest_bytes = numbers[2];
  header.file_bytes = numbers[3] % 2 == 0 ? numbers[3] : header.file_bytes;
  header.manifest_crc32c = static_cast<std::uint32_t>(numbers[4]);
  put_commit_header(file, header);
  return file;
}

std::vector<std::byte> with_changes(Bytes input) {
  std::vector<std::byte> file = sound_file();
  while (input.size() > 4) {
    std::uint32_t head = 0;
    std::memcpy(&head, input.data(), 4);
    const std::size_t at = (head & 0xffffffU) % file.size();
    const std::size_t count = std::min<std::size_t>({head >> 24U, input.size() - 4, file.size() - at});
    std::copy_n(input.begin() + 4, count, file.begin() + static_cast<std::ptrdiff_t>(at));
    input = input.subspan(4 + count);
  }
  if (input.size() == 3) {
    std::uint32_t end = 0;
    std::memcpy(&end, input.data(), 3);
    file.resize(end % (file.size() + 1));
  }
  return file;
}

void read_everything() {
  const auto reader = CheckpointReader::open(path());
  if (!reader) {
    fuzz::require(reader.error().kind == ErrorKind::BadData || reader.error().kind == ErrorKind::Mismatch,
                  "a file that is not sound is told so");
    return;
  }
  (void)reader->verify(VerifyLevel::Metadata, 1).has_value();
  (void)reader->verify(VerifyLevel::Full, 1).has_value();
  (void)reader->values().has_value();
  std::array<std::byte, 100> some{};
  for (const ManifestEntry& entry : reader->datasets()) {
    const std::size_t count = std::min<std::uint64_t>(some.size(), entry.bytes);
    const ReadRequest end{&entry, entry.bytes - count, std::span(some).first(count)};
    (void)reader->read(std::span(&end, 1), VerifyLevel::Full, 1).has_value();
    (void)reader->read(std::span(&end, 1), VerifyLevel::Metadata, 1).has_value();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const Bytes rest = std::as_bytes(std::span(input + 1, size - 1));
  const std::vector<std::byte> file = input[0] == 0   ? with_manifest(rest)
                                      : input[0] == 1 ? with_seal(rest)
                                                      : with_changes(rest);
  const storage::File opened(path(), O_WRONLY | O_CREAT | O_TRUNC);
  fuzz::require(opened.write_at(file, 0), "the input is written");
  read_everything();
  return 0;
}
