#include "trainer/distributed/backends/ucx/engine/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <random>
#include <string_view>

#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group::ucx {
namespace {

/// The content of a handle: the descriptor's number in its process, and the memory's own number.
using Handle = std::array<std::uint64_t, 2>;

std::uint64_t random_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

/// Maps the descriptor; null if that is not possible.
std::byte* map(int descriptor, std::size_t bytes, int protection) {
  void* const address = mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool may_use_shared_segments() {
  const char* chosen = std::getenv("UCX_TLS");
  std::string_view list = chosen == nullptr ? "all" : chosen;
  const bool excludes = list.starts_with('^');
  list.remove_prefix(excludes ? 1 : 0);
  bool names_all = false;
  bool names_one = false;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    names_all = names_all || is_one_of(list.substr(0, end), {"all", "sm", "shm"});
    names_one = names_one || is_one_of(list.substr(0, end), {"mm", "posix", "sysv"});
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return excludes ? !names_all && !names_one : names_all;
}

SharedSegments::SharedSegments(std::uint32_t world_size) : number_(random_number()), peers_(world_size, nullptr) {
  descriptor_ = memfd_create("rollcall-windows", MFD_CLOEXEC);
  if (descriptor_ >= 0 && ftruncate(descriptor_, kMappedBytes) == 0) {
    own_ = map(descriptor_, kMappedBytes, PROT_READ | PROT_WRITE);
  }
  if (own_ != nullptr) {
    std::memcpy(own_, &number_, sizeof number_);
  }
}

SharedSegments::~SharedSegments() {
  std::vector<std::byte*> mapped = peers_;
  mapped.push_back(own_);
  for (std::byte* const address : mapped) {
    if (address != nullptr) {
      munmap(address, kMappedBytes);
    }
  }
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

std::string SharedSegments::handle() const {
  if (own_ == nullptr) {
    return {};
  }
  const Handle handle{static_cast<std::uint64_t>(descriptor_), number_};
  std::string bytes(sizeof handle, '\0');
  std::memcpy(bytes.data(), handle.data(), sizeof handle);
  return bytes;
}

bool SharedSegments::map_peer(std::uint32_t peer, const std::string& identity, const std::string& handle) {
  Handle numbers{};
  const std::optional<pid_t> pid = local_process(identity);
  if (!pid || handle.size() != sizeof numbers || own_ == nullptr) {
    return false;
  }
  std::memcpy(numbers.data(), handle.data(), sizeof numbers);
  const std::string path = "/proc/" + std::to_string(*pid) + "/fd/" + std::to_string(numbers[0]);
  // If the PID was reused, this may open any file: its size and its number show that.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    return false;
  }
  std::byte* const memory = lseek(descriptor, 0, SEEK_END) == static_cast<off_t>(kMappedBytes)
                                ? map(descriptor, kMappedBytes, PROT_READ)
                                : nullptr;
  close(descriptor);
  peers_.at(peer) = memory;
  return memory != nullptr && std::memcmp(memory, &numbers[1], sizeof numbers[1]) == 0;
}

std::vector<const std::byte*> SharedSegments::peer_parts(std::uint64_t turn) const {
  std::vector<const std::byte*> windows(peers_.size(), nullptr);
  std::transform(peers_.begin(), peers_.end(), windows.begin(),
                 [&](const std::byte* memory) { return memory == nullptr ? nullptr : memory + offset(turn); });
  return windows;
}

}  // namespace rollcall::process_group::ucx
