#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdint>
#include <functional>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/torch.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

/// Whether `holds` is true in a child process that calls keep_tensor_memory(), which lasts for the process.
bool where_memory_is_kept(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) {
    at::set_num_threads(1);  // OpenMP's other threads stayed behind
    keep_tensor_memory();
    _exit(holds() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kOwnMalloc =
    true;  // the sanitizer's: it keeps what is freed, and ends the process where memory is short
#else
constexpr bool kOwnMalloc = false;
#endif

TEST(TensorMemory, ReusesAFreedBlockForATensorOfTheSameSize) {
  if (kOwnMalloc) {
    GTEST_SKIP() << "AddressSanitizer has an allocator of its own";
  }
  EXPECT_TRUE(where_memory_is_kept([] {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 64; ++i) {
      tensors.push_back(torch::ones({1 << 18}));
    }
    for (std::size_t i = 1; i < tensors.size(); i += 2) {
      const void* const place = tensors[i].data_ptr();
      tensors[i].reset();
      tensors[i] = torch::zeros({1 << 18});
      if (tensors[i].data_ptr() != place || tensors[i - 1].sum().item<float>() != 1 << 18) {
        return false;
      }
    }
    return true;
  }));
}

TEST(TensorMemory, AlignsTensorsAndSupportsEmptyAndGrowingOnes) {
  EXPECT_TRUE(where_memory_is_kept([] {
    for (std::int64_t size = 0; size < 300; ++size) {
      at::Tensor tensor = torch::ones({size}, at::kByte);
      if (reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64 != 0) {
        return false;
      }
      tensor.resize_({size + 1000});
      if (tensor.narrow(0, 0, size).sum().item<std::int64_t>() != size) {
        return false;
      }
    }
    return true;
  }));
}

TEST(TensorMemory, ServesRawAllocationsOfConvolutions) {
  EXPECT_TRUE(where_memory_is_kept([] {
    const at::Tensor images = torch::ones({2, 3, 16, 16}).contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor weight = torch::ones({4, 3, 3, 3}).requires_grad_();
    torch::conv2d(images, weight).sum().backward();
    at::Allocator& allocator = *c10::GetCPUAllocator();
    allocator.raw_deallocate(allocator.raw_allocate(100));
    allocator.raw_deallocate(allocator.raw_allocate(0));
    return weight.grad().eq(2 * 14 * 14).all().item<bool>();
  }));
}

TEST(TensorMemory, ReportsAFailedAllocationAsOutOfMemory) {
  if (kOwnMalloc) {
    GTEST_SKIP() << "AddressSanitizer has an allocator of its own";
  }
  EXPECT_TRUE(where_memory_is_kept([] {
    try {
      static_cast<void>(torch::empty({std::int64_t{1} << 50}));
    } catch (const c10::Error& error) {
      return process_group::out_of_memory(error).has_value();
    }
    return false;
  }));
}

}  // namespace
}  // namespace rollcall::train
