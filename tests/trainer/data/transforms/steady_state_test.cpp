// The whole program's allocations are counted for this: after a while, a sample must not cause any. Sanitizers have
// allocation functions of their own, which must not be replaced.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <gtest/gtest.h>
#include <cstdlib>
#include <new>
#include <vector>

#include "trainer/data/image/resize.h"
#include "trainer/data/transforms/operations.h"
#include "trainer/data/transforms/policy.h"
#include "trainer/data/transforms/three_augment.h"
#include "trainer/data/transforms/timm_policy.h"
#include "trainer/data/transforms/transforms.h"
#include "trainer/data/transforms/uint8_image.h"

namespace {

thread_local int allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace rollcall::data {
namespace {

TEST(SteadyState, AllocationCounterWorks) {
  const int before = allocations;
  const std::vector<int> something(10);
  EXPECT_GT(allocations, before);
}

/// The n-th of changing requests into 64 x 64.
Resize request_of(std::uint64_t n) {
  Random random(1, Purpose::Augmentation, 0, n);
  Resize request{.width = 64, .height = 64, .wanted = {0, 0, 64, 64}};
  request.source.width = 1 + static_cast<int>(random.below(200));
  request.source.height = 1 + static_cast<int>(random.below(150));
  request.flip = random.below(2) == 0;
  return request;
}

TEST(SteadyState, ResizingAllocatesNothing) {
  const std::vector<std::uint8_t> pixels(200 * 150 * 4 + 16, 99);
  const PixelView view{pixels.data(), 200 * 4, {0, 0, 200, 150}};
  std::vector<float> out(64 * 64 * 3);
  const auto resize_all = [&](std::uint64_t count) {
    for (std::uint64_t n = 0; n < count; ++n) {
      const Resize request = n == 0 ? Resize{{0, 0, 200, 150}, 64, 64, {0, 0, 64, 64}} : request_of(n);
      resize(view, request, {}, {out.data(), n % 2 == 0 ? PixelType::Float32 : PixelType::BFloat16, 64, 64});
    }
  };
  resize_all(2);
  const int before = allocations;
  resize_all(500);
  EXPECT_EQ(allocations, before);
}

TEST(SteadyState, AugmentingAllocatesNothing) {
  AugmentScratch scratch;
  std::vector<std::uint8_t> pixels(64 * 64 * 4, 99);
  std::vector<float> out(64 * 64 * 3);
  const UInt8Image levels{pixels.data(), 64, 64};
  const auto augment_all = [&](std::uint64_t count) {
    for (std::uint64_t n = 0; n < count; ++n) {
      Random random(1, Purpose::Augmentation, 0, n);
      RandAugment(2, 9).apply(levels, random, scratch);
      TrivialAugmentWide().apply(levels, random, scratch);
      TimmAugMix({}).apply(levels, random, scratch);
      three_augment(levels, random, scratch);
      ColourJitter({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}).apply(levels, random);
      RandomErasing(1, EraseValue::Random).apply({out.data(), PixelType::Float32, 64, 64}, random, scratch);
    }
  };
  augment_all(100);
  const int before = allocations;
  augment_all(100);
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace rollcall::data

#endif
