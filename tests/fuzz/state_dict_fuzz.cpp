// Any bytes as a pickle of torch.save, as a zip archive, and as a safetensors file. The first byte chooses; what
// follows the first is the pickle, which is packed into a sound archive, or the file itself.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>

#include "tests/fuzz/require.h"
#include "trainer/checkpoint/interop/pickle.h"
#include "trainer/checkpoint/interop/state_dict.h"
#include "trainer/checkpoint/interop/zip_archive.h"

namespace {

using namespace rollcall;
using namespace rollcall::checkpoint;

/// A file in memory, by name, as the readers want it.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : descriptor_(::memfd_create("state-dict-fuzz", 0)) {
    fuzz::require(::write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "written");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void check(const Result<interop::StateDict>& state) {
  for (const auto& tensor : state ? state->tensors : std::vector<interop::StateTensor>()) {
    fuzz::require(interop::byte_count(tensor.dtype, tensor.shape) == tensor.bytes.size(), "as many bytes as its shape");
    unsigned sum = 0;
    for (const std::byte byte : tensor.bytes) {
      sum += std::to_integer<unsigned>(byte);  // AddressSanitizer sees bytes that are not there
    }
    static_cast<void>(sum);
  }
}

void read_file(std::span<const std::byte> bytes) {
  const MemoryFile file(bytes);
  check(interop::read_state_dict(file.path()));
}

/// The pickle beside a storage of 64 bytes in an archive, whose checksums are right then.
void read_in_archive(std::span<const std::byte> pickle) {
  static const std::string path = "/dev/shm/rollcall-state-dict-fuzz-" + std::to_string(::getpid());
  static const int removed = std::atexit([] { ::unlink(path.c_str()); });
  static_cast<void>(removed);
  const std::string data(64, 'x');
  {
    auto out = interop::OutputFile::create(path, true);
    interop::ZipWriter zip(*out);
    const bool written = zip.add("a/data.pkl", pickle) && zip.add("a/data/0", std::as_bytes(std::span(data))) &&
                         zip.finish() && out->commit();
    fuzz::require(written, "the archive was written");
  }
  check(interop::read_state_dict(path));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] % 4 == 0) {
    static_cast<void>(interop::read_pickle(input, "fuzz"));
  } else if (data[0] % 4 == 1) {
    read_in_archive(input);
  } else {
    read_file(input);
  }
  return 0;
}
