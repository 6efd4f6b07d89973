#include "trainer/train/process.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace rollcall::train {
namespace {

/// The block of malloc that holds a tensor's memory; its address is stored in front of that memory.
using Block = void*;

void free_block_of(void* memory) {
  if (memory != nullptr) {
    std::free(*(static_cast<Block*>(memory) - 1));
  }
}

class AlignedBlocks final : public at::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &free_block_of, at::kCPU};
    }
    const Block block = std::malloc(bytes + sizeof(Block) + c10::gAlignment - 1);
    TORCH_CHECK(block != nullptr, "can't allocate memory: you tried to allocate ", bytes, " bytes");
    auto* const first = static_cast<char*>(block) + sizeof(Block);
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(first) % c10::gAlignment;
    char* const memory = first + (beyond == 0 ? 0 : c10::gAlignment - beyond);
    *(reinterpret_cast<Block*>(memory) - 1) = block;
    return {memory, memory, &free_block_of, at::kCPU};
  }

  /// Returns the deleter for kernels of oneDNN, which allocate memory without a DataPtr (raw_allocate()).
  at::DeleterFnPtr raw_deleter() const override { return &free_block_of; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void keep_tensor_memory() {
  constexpr int kGibibyte = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kGibibyte);
  mallopt(M_TRIM_THRESHOLD, kGibibyte);
  mallopt(M_TOP_PAD, 64 << 20);
  static AlignedBlocks blocks;
  c10::SetCPUAllocator(&blocks);
}

void prepare_process(int threads) {
  std::signal(SIGPIPE, SIG_IGN);
  keep_tensor_memory();
  if (threads > 0) {
    at::set_num_threads(threads);
  }
}

Usage usage_of_this_process() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {static_cast<std::uint64_t>(usage.ru_maxrss) * 1024, seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kibibytes = 0;
  while (status >> word) {
    if (word == "VmHWM:") {
      status >> kibibytes;
      break;
    }
  }
  return kibibytes * 1024;
}

}  // namespace rollcall::train
