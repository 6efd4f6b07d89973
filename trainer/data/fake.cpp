#include "trainer/data/fake.h"

#include <cassert>

#include "trainer/data/random.h"

namespace rollcall::data {

FakeDataset::FakeDataset(std::vector<std::int64_t> members, int image_size, std::uint64_t seed)
    : members_(std::move(members)), image_size_(image_size), seed_(seed) {
  for (std::int64_t label = 0; label < kFakeClasses; ++label) {
    class_names_.push_back(std::to_string(label));
  }
}

Result<std::int64_t> FakeDataset::read(std::int64_t index, std::uint64_t /*epoch*/, std::span<float> pixels) const {
  assert(pixels.size() == static_cast<std::size_t>(image_size_) * static_cast<std::size_t>(image_size_) * 3);
  const auto sample = static_cast<std::uint64_t>(members_[static_cast<std::size_t>(index)]);
  Random(seed_, Purpose::FakePixels, 0, sample).fill_normal(pixels);
  return std::int64_t{Random(seed_, Purpose::FakeLabel, 0, sample).below(kFakeClasses)};
}

std::string FakeDataset::describe(std::int64_t index) const {
  return "fake sample " + std::to_string(members_[static_cast<std::size_t>(index)]);
}

}  // namespace rollcall::data
