#include "trainer/train/same_data.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <string_view>

#include "trainer/data/sources/left_out.h"

namespace rollcall::train {
namespace {

using checkpoint::DataParts;
using data::DataIdentity;

constexpr const char* kOtherData =
    "the data set of before, or another --run-name or --checkpoint-dir, with --init-from=FILE to begin with what was "
    "trained";

/// What is different, or an empty text. A number below 0 is one that a source does not tell.
std::string difference_of(const checkpoint::DataSet& one, const checkpoint::DataSet& other) {
  const auto differ = [](std::int64_t a, std::int64_t b) { return a >= 0 && b >= 0 && a != b; };
  if (differ(one.class_names, other.class_names)) {
    return "the names of the classes";
  }
  if (differ(one.labels, other.labels)) {
    return "the labels of the images";
  }
  return differ(one.picture_names, other.picture_names) ? "the names of the images" : "";
}

/// "the validation images (60, not 50)", or an empty text; files of earlier versions do not say.
std::string validation_difference_of(const checkpoint::DataSet& then, const checkpoint::DataSet& now) {
  if (then.images != 0 && then.images != now.images) {
    return fmt::format("the validation images ({}, not {})", now.images, then.images);
  }
  const std::string what = difference_of(then, now);
  return what.empty() ? "" : what + " for validation";
}

checkpoint::DataSet kept_of(const DataIdentity& identity) {
  return {.images = identity.images,
          .class_names = identity.class_names,
          .labels = identity.labels,
          .picture_names = identity.picture_names};
}

/// The classes of a training without names for them were called by their numbers, which no name contradicts.
DataParts without_numbers(DataParts then, std::size_t classes) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < classes; ++i) {
    numbers.push_back(std::to_string(i));
  }
  const std::int64_t checksum = data::checksum_of_names(numbers);
  for (const auto part : {&DataParts::train, &DataParts::valid}) {
    std::int64_t& names = (then.*part).class_names;
    names = names == checksum ? -1 : names;
  }
  return then;
}

}  // namespace

std::string read_since_text(const data::Datasets& now) {
  constexpr std::array<std::string_view, 3> kAlwaysRead{"jpg", "jpeg", "png"};
  data::LeftOut others;
  for (const auto& part : {now.train, now.valid}) {
    for (std::int64_t index = 0; part != nullptr && index < part->size(); ++index) {
      const std::string name = part->describe(index);
      const std::string ending = data::last_ending(name);
      if (data::is_picture_ending(ending) && std::ranges::find(kAlwaysRead, ending) == kAlwaysRead.end()) {
        others.add("." + ending, name);
      }
    }
  }
  return others.is_empty() ? "" : "; among them are pictures of kinds that earlier versions left out, " + others.text();
}

std::string difference_of(const DataParts& one, const DataParts& other) {
  for (const auto part : {&DataParts::train, &DataParts::valid}) {
    if ((one.*part).images != (other.*part).images) {
      return fmt::format("{} images for {}, not {}", (one.*part).images,
                         part == &DataParts::train ? "training" : "validation", (other.*part).images);
    }
  }
  const std::string train = difference_of(one.train, other.train);
  const std::string what = train.empty() ? difference_of(one.valid, other.valid) : train;
  return what.empty() ? "" : "as many images, but " + what + " are others";
}

checkpoint::DataParts data_of(const data::Datasets& datasets) {
  return {kept_of(datasets.identity), kept_of(datasets.valid_identity)};
}

Result<void> check_same_data(const DataParts& then, const data::Datasets& now, const std::string& given,
                             OtherData other, std::vector<std::string>& warnings) {
  const DataParts mine = data_of(now);
  if (then.train.images == 0) {
    warnings.push_back(
        fmt::format("--data: {}: the checkpoint is of an earlier version, which does not say what images its training "
                    "had; going on as if these were the same",
                    given));
    return {};
  }
  if (then.train.images != mine.train.images) {
    return fail("--data", given,
                fmt::format("has {} images, the checkpoint is of a training with {}{}", mine.train.images,
                            then.train.images, then.train.images < mine.train.images ? read_since_text(now) : ""),
                kOtherData, ErrorKind::Mismatch);
  }
  const DataParts known = without_numbers(then, now.class_names.size());
  std::string what = difference_of(known.train, mine.train);
  if (what.empty()) {
    what = validation_difference_of(known.valid, mine.valid);
  }
  if (what.empty()) {
    return {};
  }
  if (other == OtherData::Accept && !now.split_by_seed) {
    warnings.push_back(fmt::format("--data: {}: {} are others than in the training that is gone on with", given, what));
    return {};
  }
  const bool validates_more = then.valid.images != 0 && then.valid.images < mine.valid.images;
  return fail("--data", given,
              fmt::format("has as many images as the checkpoint's training, but {} are others{}", what,
                          validates_more ? read_since_text(now) : ""),
              now.split_by_seed ? kOtherData
                                : std::string(kOtherData) + ", or --resume=continue-with-changes to go on all the same",
              ErrorKind::Mismatch);
}

bool validates_otherwise(const DataParts& then, const data::Datasets& now) {
  const DataParts known = without_numbers(then, now.class_names.size());
  return !validation_difference_of(known.valid, data_of(now).valid).empty();
}

}  // namespace rollcall::train
