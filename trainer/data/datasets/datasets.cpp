#include "trainer/data/datasets/datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "runtime/base/bfloat16.h"
#include "trainer/data/pixels.h"
#include "trainer/data/sampling/random.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/data/sources/class_names.h"
#include "trainer/data/sources/data_parts.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/label_list.h"
#include "trainer/data/sources/label_sets.h"
#include "trainer/data/sources/source_indices.h"

namespace rollcall::data {
namespace {

/// Returns the size before the centre crop in the proportion of 256 to 224.
int resize_size_of(const DataOptions& options) {
  return options.resize_size > 0 ? options.resize_size : (valid_image_size(options) * 256 + 112) / 224;
}

std::optional<Error> check(const DataOptions& options) {
  if (options.image_size < 1) {
    return fail("--image-size", std::to_string(options.image_size), "must be positive", "--image-size=224");
  }
  if (const int size = valid_image_size(options); resize_size_of(options) < size) {
    const bool is_own = options.valid_image_size > 0;
    return fail("--valid-resize", std::to_string(options.resize_size),
                fmt::format("is smaller than --{}={}", is_own ? "valid-image-size" : "image-size", size),
                "setting it to at least the image size");
  }
  if (!(options.crop_scale_min > 0 && options.crop_scale_min <= options.crop_scale_max &&
        options.crop_scale_max <= 1)) {
    return fail("--crop-scale-min", std::to_string(options.crop_scale_min),
                "is not in the range 0 < --crop-scale-min <= --crop-scale-max <= 1", "setting both in this order");
  }
  if (!(options.crop_ratio_min > 0 && options.crop_ratio_min <= options.crop_ratio_max)) {
    return fail("--crop-ratio-min", std::to_string(options.crop_ratio_min),
                "is not in the range 0 < --crop-ratio-min <= --crop-ratio-max", "setting both in this order");
  }
  return std::nullopt;
}

Transform train_transform(const DataOptions& options) {
  TrainTransform transform;
  transform.image_size = options.image_size;
  transform.crop = {options.crop_scale_min, options.crop_scale_max, options.crop_ratio_min, options.crop_ratio_max};
  transform.flip_probability = options.flip_probability;
  transform.vertical_flip_probability = options.vertical_flip_probability;
  transform.interpolation = options.interpolation;
  transform.normalisation = options.normalisation;
  transform.augment = options.augment;
  return transform;
}

Transform eval_transform(const DataOptions& options) {
  EvalTransform transform;
  transform.image_size = valid_image_size(options);
  transform.resize_size = resize_size_of(options);
  transform.interpolation = options.interpolation;
  transform.normalisation = options.normalisation;
  return transform;
}

/// Returns the indices of the part, or nothing for all.
ImageDataset::Members members_of(const Split& split, Part part) {
  return part == Part::All     ? std::nullopt
         : part == Part::Train ? std::optional(split.train)
         : part == Part::Test  ? std::optional(split.test)
                               : std::optional(split.valid);
}

Datasets make_fake(const DataOptions& options) {
  Split split = split_85_10_5(options.fake_samples, options.seed);
  Datasets datasets;
  std::vector<std::int64_t> evaluated(static_cast<std::size_t>(options.fake_samples));
  std::iota(evaluated.begin(), evaluated.end(), 0);
  evaluated = members_of(split, options.evaluated).value_or(std::move(evaluated));
  datasets.train = std::make_shared<FakeDataset>(std::move(split.train), options.seed, options.normalisation);
  datasets.valid = std::make_shared<FakeDataset>(std::move(evaluated), options.seed, options.normalisation);
  datasets.num_classes = kFakeOutputs;
  datasets.class_names = datasets.train->class_names();
  datasets.identity = {.images = options.fake_samples};
  datasets.valid_identity = datasets.identity;
  return datasets;
}

using Source = std::shared_ptr<const ImageSource>;

std::int64_t checksum_of(std::vector<std::string> class_names, const std::vector<std::string>& sets) {
  class_names.insert(class_names.end(), sets.begin(), sets.end());
  return checksum_of_names(class_names);
}

/// `class_names`: those that were given; empty: those of the training images.
Datasets make_images(const DataOptions& options, const Source& train, ImageDataset::Members train_members,
                     const Source& valid, ImageDataset::Members valid_members,
                     const std::vector<std::string>& class_names) {
  using Sets = std::shared_ptr<const LabelSets>;
  const bool several = options.several_labels;
  const Sets of_train = several ? std::make_shared<const LabelSets>(train->class_names(), class_names) : nullptr;
  const Sets of_valid =
      several ? std::make_shared<const LabelSets>(valid->class_names(), of_train->class_names()) : nullptr;
  Datasets datasets;
  datasets.class_names = several ? of_train->class_names() : train->class_names();
  datasets.num_classes = static_cast<std::int64_t>(datasets.class_names.size());
  datasets.identity = train->identity();
  datasets.valid_identity = valid == train ? datasets.identity : valid->identity();
  if (several) {  // their labels are numbers of sets: a row of 0 and 1 depends on the numbers of the classes too
    datasets.identity.class_names = checksum_of(datasets.class_names, train->class_names());
    datasets.valid_identity.class_names = checksum_of(datasets.class_names, valid->class_names());
  }
  datasets.train =
      std::make_shared<ImageDataset>(train, std::move(train_members), train_transform(options), options.seed, of_train);
  datasets.valid =
      std::make_shared<ImageDataset>(valid, std::move(valid_members), eval_transform(options), options.seed, of_valid);
  return datasets;
}

Result<Datasets> split_source(const DataOptions& options, const Source& source,
                              const std::vector<std::string>& class_names = {}) {
  Split split = split_85_10_5(source->size(), options.seed);
  ImageDataset::Members evaluated = members_of(split, options.evaluated);
  if (evaluated && evaluated->empty()) {
    return fail("--data", options.source, "holds too few images to be split into training and validation",
                "adding images, or naming a folder that holds train and val", ErrorKind::BadData);
  }
  Datasets datasets = make_images(options, source, std::move(split.train), source, std::move(evaluated), class_names);
  datasets.split_by_seed = true;
  return datasets;
}

Result<Datasets> two_parts(const DataOptions& options, const DataParts& parts,
                           const std::vector<std::string>& class_names, SourceIndices& indices) {
  const bool several = options.several_labels;
  ASSIGN_OR_RETURN(const Source train, open_source(*parts.train, indices, {class_names, several}));
  const std::vector<std::string> classes =
      several ? LabelSets(train->class_names(), class_names).class_names() : train->class_names();
  ASSIGN_OR_RETURN(const Source valid, open_source(*parts.valid, indices, {classes, several}));
  const std::string difference = several ? "" : class_difference(classes, valid->class_names());
  if (!difference.empty()) {
    return fail("--data", *parts.valid, "its classes differ from those of " + *parts.train + ": it " + difference,
                "giving both sets the same class names", ErrorKind::BadData);
  }
  if (options.evaluated == Part::Test || options.evaluated == Part::All) {
    const char* const part = options.evaluated == Part::Test ? "test" : "all";
    return fail("--evaluate-split", part, options.source + " is a folder with a training and a validation set",
                "--evaluate-split=valid, or --data=FOLDER --evaluate-split=all with the folder of one set");
  }
  return make_images(options, train, std::nullopt, options.evaluated == Part::Train ? train : valid, std::nullopt,
                     class_names);
}

std::vector<std::int64_t> members_of(const SampleIndex& index, ListedPart part) {
  std::vector<std::int64_t> members;
  for (std::int64_t i = 0; i < index.size(); ++i) {
    if (index.entry(i).shard == static_cast<std::uint32_t>(part)) {
      members.push_back(i);
    }
  }
  return members;
}

/// Opens a list of labels, which may name the part of each picture.
Result<Datasets> one_list(const DataOptions& options, const std::vector<std::string>& class_names,
                          SourceIndices& indices) {
  ASSIGN_OR_RETURN(ImageTree tree, read_label_list(options.source, {class_names, options.several_labels}, indices));
  const SampleIndex index = tree.index;
  const auto source = std::make_shared<ImageFolder>(std::move(tree));
  if (index.entry(0).shard == static_cast<std::uint32_t>(ListedPart::Unnamed)) {
    return split_source(options, source, class_names);
  }
  std::vector<std::int64_t> train = members_of(index, ListedPart::Train);
  std::vector<std::int64_t> valid = members_of(index, ListedPart::Valid);
  if (train.empty() || valid.empty()) {
    return fail("--data", options.source, fmt::format("has no row with split={}", train.empty() ? "train" : "val"),
                "adding such rows, or removing the column", ErrorKind::BadData);
  }
  ImageDataset::Members evaluated = std::move(valid);
  if (options.evaluated != Part::Valid) {
    evaluated = options.evaluated == Part::All     ? std::nullopt
                : options.evaluated == Part::Train ? std::optional(train)
                                                   : std::optional(members_of(index, ListedPart::Test));
  }
  if (evaluated && evaluated->empty()) {
    return fail("--evaluate-split", "test", options.source + " has no row with split=test", "--evaluate-split=valid",
                ErrorKind::BadData);
  }
  Datasets datasets = make_images(options, source, std::move(train), source, std::move(evaluated), class_names);
  datasets.identity.parts = datasets.valid_identity.parts = index.checksum_of_shards();
  return datasets;
}

/// Returns the names of --class-names; empty if it is not given. Errors: of the file; Usage: no list of labels is read.
Result<std::vector<std::string>> given_class_names(const DataOptions& options, const DataParts& parts) {
  if (options.class_names.empty()) {
    return std::vector<std::string>();
  }
  if (!is_label_list(parts.train.value_or(options.source))) {
    return fail("--class-names", options.class_names, "has no effect without a CSV file as --data", "leaving it out");
  }
  return class_names_in(options.class_names);
}

/// Only lists of labels can name several classes for an image.
Result<void> check_several_labels(const DataOptions& options, const DataParts& parts) {
  for (const std::string& part : {parts.train.value_or(options.source), parts.valid.value_or(options.source)}) {
    if (options.several_labels && !is_label_list(part)) {
      return fail("--loss", "multi-label",
                  "has no effect without a CSV file as --data: images of " + part + " have one class each",
                  "--loss=bce");
    }
  }
  return {};
}

}  // namespace

Result<Datasets> make_datasets(const DataOptions& options, SourceIndices& indices) {
  if (std::optional<Error> error = check(options)) {
    return *std::move(error);
  }
  const bool fake = options.source == "fake";
  ASSIGN_OR_RETURN(const DataParts parts, fake ? Result(DataParts()) : find_parts(options.source));
  ASSIGN_OR_RETURN(const std::vector<std::string> class_names, given_class_names(options, parts));
  RETURN_IF_ERROR(check_several_labels(options, parts));
  if (fake) {
    return make_fake(options);
  }
  if (parts.train) {
    return two_parts(options, parts, class_names, indices);
  }
  if (is_label_list(options.source)) {
    return one_list(options, class_names, indices);
  }
  const Result<Source> source = open_source(options.source, indices);
  return source ? split_source(options, *source) : source.error();
}

std::vector<std::vector<std::int64_t>> samples_by_label(const Dataset& dataset) {
  std::vector<std::vector<std::int64_t>> samples(dataset.class_names().size());
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    samples[static_cast<std::size_t>(dataset.label(i))].push_back(i);
  }
  return samples;
}

Result<std::shared_ptr<const Dataset>> make_unlabelled(const DataOptions& options, Source source) {
  if (std::optional<Error> error = check(options)) {
    return *std::move(error);
  }
  return std::shared_ptr<const Dataset>(
      std::make_shared<ImageDataset>(std::move(source), std::nullopt, eval_transform(options), options.seed));
}

namespace {

using Clock = std::chrono::steady_clock;

/// Measures laps: adds the time since the previous lap to a sum.
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

/// Decodes the part that a plan needs. If the decoder halves the picture, the plan is changed to one of the halved
/// picture.
Result<PixelView> decode(ImageDecoder& decoder, ImageSize size, Resize& plan) {
  if (decoder.reduction_for(plan.source, {plan.width, plan.height}) == 1) {
    return decoder.decode(needed(plan));
  }
  plan = halved(plan);
  return decoder.decode(doubled(needed(plan), size), 2);
}

}  // namespace

ImageDataset::ImageDataset(std::shared_ptr<const ImageSource> source, Members members, Transform transform,
                           std::uint64_t seed, std::shared_ptr<const LabelSets> label_sets)
    : source_(std::move(source)),
      members_(std::move(members)),
      transform_(transform),
      seed_(seed),
      label_sets_(std::move(label_sets)) {}

Result<std::int64_t> ImageDataset::read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                                        Workspace& workspace) const {
  Laps laps;
  const auto named = [&](Error error) {
    error.value = describe(index);
    return error;
  };
  ASSIGN_OR_RETURN(const ImageSource::Sample sample, source_->fetch(number(index), workspace.buffer));
  laps.end(workspace.times.fetch);

  const Result<ImageSize> size = workspace.decoder.open(sample.image);
  if (!size) {
    return named(size.error());
  }
  Random random(seed_, Purpose::Augmentation, epoch, static_cast<std::uint64_t>(number(index)));
  Transform transform = transform_;
  std::visit([&](auto& of) { of.image_size = out.width; }, transform);
  Resize plan = std::visit([&](const auto& of) { return of.plan(*size, random); }, transform);
  const Result<PixelView> view = decode(workspace.decoder, *size, plan);
  if (!view) {
    return named(view.error());
  }
  laps.end(workspace.times.decode);

  std::visit([&](const auto& of) { of.apply(*view, plan, random, out, workspace.scratch); }, transform);
  laps.end(workspace.times.augment);
  ++workspace.times.samples;
  return sample.label;
}

std::string ImageDataset::describe(std::int64_t index) const { return source_->describe(number(index)); }

namespace {

/// Fills the output with normal draws, each converted to an element by `as(value, channel)`.
template <typename Element, typename As>
void fill_turned(Random& random, std::span<Element> out, const As& as) {
  std::array<float, 1020> part{};  // an even number: two draws share a random word; and whole pixels
  while (!out.empty()) {
    const std::size_t count = std::min(part.size(), out.size());
    random.fill_normal(std::span(part).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = as(part[i], i % 3);
    }
    out = out.subspan(count);
  }
}

}  // namespace

FakeDataset::FakeDataset(std::vector<std::int64_t> members, std::uint64_t seed, const Normalisation& normalisation)
    : members_(std::move(members)), seed_(seed), normalisation_(normalisation) {
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
  } else if (out.type == PixelType::BFloat16) {
    fill_turned(random, std::span(static_cast<std::uint16_t*>(out.data), out.elements()),
                [](float value, std::size_t) { return to_bfloat16(value); });
  } else {
    fill_turned(random, std::span(static_cast<std::uint8_t*>(out.data), out.elements()),
                [this](float value, std::size_t channel) { return normalisation_.nearest_uint8(value, channel); });
  }
  return label(index);
}

std::int64_t FakeDataset::label(std::int64_t index) const {
  const auto sample = static_cast<std::uint64_t>(members_[static_cast<std::size_t>(index)]);
  return Random(seed_, Purpose::FakeLabel, 0, sample).below(kFakeClasses);
}

std::string FakeDataset::describe(std::int64_t index) const {
  return "fake sample " + std::to_string(members_[static_cast<std::size_t>(index)]);
}

}  // namespace rollcall::data
