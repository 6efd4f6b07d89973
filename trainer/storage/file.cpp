#include "trainer/storage/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "runtime/base/this_process.h"

namespace rollcall::storage {

bool fits_in_memory(std::uint64_t bytes) {
  constexpr std::uint64_t kAnybodyHas = std::uint64_t{64} << 20U;  // this much needs no look at /proc
  const std::uint64_t limit = bytes > kAnybodyHas ? memory_limit() : 0;
  return limit == 0 || bytes <= limit;
}

bool sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const File opened(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  // Some network file systems cannot fsync a folder and say so (EINVAL): their metadata operations are synchronous.
  return opened && (::fsync(opened.descriptor()) == 0 || errno == EINVAL);
}

namespace {

/// Returns the size of a file that is sealed against becoming shorter, else nothing: reading a mapped file beyond its
/// end kills a process.
std::optional<std::size_t> sealed_size(const File& file) {
  const int seals = ::fcntl(file.descriptor(), F_GET_SEALS);
  const auto size = file.regular_size();
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || !size) {
    return std::nullopt;
  }
  return *size;
}

}  // namespace

std::optional<SharedMemory> SharedMemory::map(File file, std::size_t size, int protection) {
  void* const address = ::mmap(nullptr, size, protection, MAP_SHARED, file.descriptor(), 0);
  if (address == MAP_FAILED) {
    return std::nullopt;
  }
  return SharedMemory(std::move(file), address, size);
}

std::optional<SharedMemory> SharedMemory::make(std::size_t bytes) {
  File file(::memfd_create("rollcall", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.descriptor(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.descriptor(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return std::nullopt;
  }
  return map(std::move(file), bytes, PROT_READ | PROT_WRITE);
}

std::optional<SharedMemory> SharedMemory::map_from_process(pid_t pid, int descriptor) {
  // O_NONBLOCK: for a process of another PID namespace this may be a pipe.
  File file("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  const std::optional<std::size_t> size = file ? sealed_size(file) : std::nullopt;
  return size && *size > 0 ? map(std::move(file), *size, PROT_READ) : std::nullopt;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)),
      address_(std::exchange(other.address_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (address_ != nullptr) {
    ::munmap(address_, size_);
  }
}

}  // namespace rollcall::storage
