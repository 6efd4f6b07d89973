#include "trainer/data/datasets/image_dataset.h"

#include <chrono>
#include <utility>

namespace rollcall::data {
namespace {

using Clock = std::chrono::steady_clock;

/// Adds the time since the last lap to a sum.
class Laps {
 public:
  void end(std::chrono::nanoseconds& sum) {
    const Clock::time_point now = Clock::now();
    sum += now - begin_;
    begin_ = now;
  }

 private:
  Clock::time_point begin_ = Clock::now();
};

/// Decodes what a plan needs; where the decoder halves the picture, the plan becomes one of the halved picture.
Result<PixelView> decode(ImageDecoder& decoder, ImageSize size, Resize& plan) {
  if (decoder.reduction_for(plan.source, {plan.width, plan.height}) == 1) {
    return decoder.decode(needed(plan));
  }
  plan = halved(plan);
  return decoder.decode(doubled(needed(plan), size), 2);
}

}  // namespace

ImageDataset::ImageDataset(std::shared_ptr<const ImageSource> source, Members members, Transform transform,
                           std::uint64_t seed)
    : source_(std::move(source)), members_(std::move(members)), transform_(std::move(transform)), seed_(seed) {}

Result<std::int64_t> ImageDataset::read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                                        Workspace& workspace) const {
  Laps laps;
  const auto named = [&](Error error) {
    error.value = describe(index);
    return error;
  };
  const Result<ImageSource::Sample> sample = source_->fetch(number(index), workspace.buffer);
  if (!sample) {
    return sample.error();
  }
  laps.end(workspace.times.fetch);

  const Result<ImageSize> size = workspace.decoder.open(sample->image);
  if (!size) {
    return named(size.error());
  }
  Random random(seed_, Purpose::Augmentation, epoch, static_cast<std::uint64_t>(number(index)));
  Resize plan = std::visit([&](const auto& transform) { return transform.plan(*size, random); }, transform_);
  const Result<PixelView> view = decode(workspace.decoder, *size, plan);
  if (!view) {
    return named(view.error());
  }
  laps.end(workspace.times.decode);

  std::visit([&](const auto& transform) { transform.apply(*view, plan, random, out, workspace.scratch); }, transform_);
  laps.end(workspace.times.augment);
  ++workspace.times.samples;
  return sample->label;
}

std::string ImageDataset::describe(std::int64_t index) const { return source_->describe(number(index)); }

}  // namespace rollcall::data
