#include "trainer/data/datasets/fake_dataset.h"

#include <algorithm>
#include <array>
#include <span>

#include "trainer/data/pixels.h"
#include "trainer/data/sampling/random.h"

namespace rollcall::data {
namespace {

void fill_rounded(Random& random, std::span<std::uint16_t> out) {
  std::array<float, 1024> part{};  // an even number: two draws share a random word
  while (!out.empty()) {
    const std::size_t count = std::min(part.size(), out.size());
    random.fill_normal(std::span(part).first(count));
    std::ranges::transform(std::span(part).first(count), out.begin(), to_bfloat16);
    out = out.subspan(count);
  }
}

}  // namespace

FakeDataset::FakeDataset(std::vector<std::int64_t> members, std::uint64_t seed)
    : members_(std::move(members)), seed_(seed) {
  for (std::int64_t label = 0; label < kFakeClasses; ++label) {
    class_names_.push_back(std::to_string(label));
  }
}

Result<std::int64_t> FakeDataset::read(std::int64_t index, std::uint64_t /*epoch*/, const OutputPixels& out,
                                       Workspace& /*workspace*/) const {
  const auto sample = static_cast<std::uint64_t>(members_[static_cast<std::size_t>(index)]);
  Random random(seed_, Purpose::FakePixels, 0, sample);
  if (out.type == PixelType::Float32) {
    random.fill_normal({static_cast<float*>(out.data), out.elements()});
  } else {
    fill_rounded(random, {static_cast<std::uint16_t*>(out.data), out.elements()});
  }
  return std::int64_t{Random(seed_, Purpose::FakeLabel, 0, sample).below(kFakeClasses)};
}

std::string FakeDataset::describe(std::int64_t index) const {
  return "fake sample " + std::to_string(members_[static_cast<std::size_t>(index)]);
}

}  // namespace rollcall::data
