#include <fmt/format.h>

#include <array>
#include <utility>

#include "runtime/settings/values.h"
#include "trainer/config/train_config.h"

namespace rollcall::config {
namespace {

using settings::Settings;

data::AugmentOptions augment_options(const Settings& settings) {
  data::AugmentOptions options;
  options.colour_jitter = {settings.number("brightness"), settings.number("contrast"), settings.number("saturation"),
                           settings.number("hue")};
  const std::string& policy = settings.text("auto-augment");
  options.policy = policy == "none"               ? data::AugmentPolicy::None
                   : policy == "randaugment"      ? data::AugmentPolicy::RandAugment
                   : policy == "trivial"          ? data::AugmentPolicy::TrivialAugmentWide
                   : policy == "randaugment-timm" ? data::AugmentPolicy::TimmRandAugment
                   : policy == "augmix"           ? data::AugmentPolicy::AugMix
                                                  : data::AugmentPolicy::ThreeAugment;
  options.randaugment_ops = static_cast<int>(settings.integer("randaugment-ops"));
  options.randaugment_magnitude = static_cast<int>(settings.integer("randaugment-magnitude"));
  options.randaugment_mstd = settings.number("randaugment-mstd");
  options.erase_probability = settings.number("random-erase");
  options.erase_value =
      settings.text("random-erase-value") == "random" ? data::EraseValue::Random : data::EraseValue::Zero;
  options.mixup_alpha = settings.number("mixup");
  options.cutmix_alpha = settings.number("cutmix");
  return options;
}

/// Returns the numbers of a setting, one for each channel, if all are within the limits.
Result<std::array<double, 3>> by_channel(const Settings& settings, std::string_view name, double least, double most) {
  const std::vector<std::string> texts = settings.list(name);
  std::array<double, 3> values{};
  bool valid = texts.size() == values.size();
  for (std::size_t i = 0; valid && i < values.size(); ++i) {
    const std::optional<double> value = settings::parse_number(texts[i]);
    valid = value && *value >= least && *value <= most;
    values[i] = value.value_or(0);
  }
  if (!valid) {
    return fail(settings::option_name(name), settings.text(name),
                fmt::format("must be three numbers from {} to {}", least, most),
                "giving one for each of red, green, blue");
  }
  return values;
}

data::Part evaluated_part(const std::string& name) {
  return name == "train"  ? data::Part::Train
         : name == "test" ? data::Part::Test
         : name == "all"  ? data::Part::All
                          : data::Part::Valid;
}

Result<data::DataOptions> dataset_options(const Settings& settings, std::string source, std::string class_names) {
  data::DataOptions options;
  options.source = std::move(source);
  options.class_names = std::move(class_names);
  options.several_labels = settings.text("loss") == "multi-label";
  options.fake_samples = settings.integer("fake-size");
  options.image_size = static_cast<int>(settings.integer("image-size"));
  options.valid_image_size = static_cast<int>(settings.integer("valid-image-size"));
  options.resize_size = static_cast<int>(settings.integer("valid-resize"));
  options.crop_scale_min = settings.number("crop-scale-min");
  options.crop_scale_max = settings.number("crop-scale-max");
  options.crop_ratio_min = settings.number("crop-ratio-min");
  options.crop_ratio_max = settings.number("crop-ratio-max");
  options.flip_probability = settings.number("flip");
  options.vertical_flip_probability = settings.number("vertical-flip");
  options.interpolation =
      settings.text("interpolation") == "bicubic" ? data::Interpolation::Bicubic : data::Interpolation::Bilinear;
  ASSIGN_OR_RETURN(options.normalisation.mean, by_channel(settings, "mean", 0, 1));
  ASSIGN_OR_RETURN(options.normalisation.stddev, by_channel(settings, "std", 0.001, 1));
  options.augment = augment_options(settings);
  options.seed = seed_of(settings);
  options.evaluated = evaluated_part(settings.text("evaluate-split"));
  return options;
}

data::SamplerOptions sampler_options(const Settings& settings) {
  data::SamplerOptions options;
  options.batch_size = settings.integer("batch-size");
  options.accumulation = settings.integer("grad-accumulation");
  options.seed = seed_of(settings);
  options.shuffle = true;
  options.window = settings.integer("shuffle-window");
  options.repetitions = settings.integer("repeated-augmentation");
  options.pad = settings.text("last-batch") == "pad";
  options.drop_last = !options.pad;
  return options;
}

Result<data::ImageSizeSchedule> image_size_schedule(const Settings& settings) {
  const std::vector<std::string> texts = settings.list("image-size-schedule");
  if (texts == std::vector<std::string>{"none"}) {
    return data::ImageSizeSchedule{};
  }
  const auto number = [&](std::size_t i) {
    return i < texts.size() ? settings::parse_number(texts[i]).value_or(-1) : -1;
  };
  const double largest = settings.number("image-size");
  const data::ImageSizeSchedule schedule{static_cast<int>(number(0)), number(1), number(2)};
  if (texts.size() != 3 || schedule.smallest < 8 || schedule.smallest != number(0) || number(0) > largest ||
      schedule.begin < 0 || schedule.end < schedule.begin) {
    return fail(
        "--image-size-schedule", settings.text("image-size-schedule"),
        fmt::format("must be a size of 8 to --image-size={} pixels, and two numbers of epochs in ascending order",
                    largest),
        "--image-size-schedule=160,11,13");
  }
  return schedule;
}

Result<data::LoaderOptions> loader_options(const Settings& settings) {
  data::LoaderOptions options;
  options.prefetch = static_cast<int>(settings.integer("prefetch"));
  options.batch_size = settings.integer("batch-size");
  options.image_size = static_cast<int>(settings.integer("image-size"));
  ASSIGN_OR_RETURN(options.growth, image_size_schedule(settings));
  options.decode = {.apply_orientation = settings.on("exif-orientation"), .dct_scaling = settings.on("dct-scaling")};
  options.seed = seed_of(settings);
  // A file server that fails for a moment would change what an exact training comes to.
  const bool exact = settings.integer("elastic-exact") > 0;
  options.bad_samples = settings.text("bad-samples") == "fail" ? data::BadSamples::Fail
                        : exact                                ? data::BadSamples::SkipDamaged
                                                               : data::BadSamples::Skip;
  return options;
}

std::optional<data::PixelType> pixel_type(const std::string& name) {
  return name == "auto"       ? std::nullopt
         : name == "uint8"    ? std::optional(data::PixelType::UInt8)
         : name == "bfloat16" ? std::optional(data::PixelType::BFloat16)
                              : std::optional(data::PixelType::Float32);
}

std::optional<int> workers(const Settings& settings, const char* setting) {
  return settings.text(setting) == "auto" ? std::nullopt : std::optional(static_cast<int>(settings.integer(setting)));
}
/// The index is kept in SCRATCH, which outlives the job as the data do. Without SCRATCH nothing would read it again.
Result<std::string> index_folder_of(const Settings& settings, const Environment& environment) {
  const std::string& text = settings.text("index-dir");
  if (text == "none") {
    return std::string();
  }
  ASSIGN_OR_RETURN(const std::string scratch, scratch_of(environment, "--index-dir"));
  const std::string otherwise = scratch.empty() ? "" : scratch + "/rollcall/index";
  return text.empty() ? Result<std::string>(otherwise) : settings::expand_path(text, environment, "--index-dir");
}

}  // namespace

Result<std::string> scratch_of(const Environment& environment, const std::string& setting) {
  return environment.get_non_empty("SCRATCH") ? settings::expand_path("${SCRATCH}", environment, setting)
                                              : Result<std::string>(std::string());
}
Result<DataConfig> make_data_config(const Settings& settings, const Environment& environment) {
  ASSIGN_OR_RETURN(std::string source, settings::expand_path(settings.text("data"), environment, "--data"));
  ASSIGN_OR_RETURN(std::string index_folder, index_folder_of(settings, environment));
  const std::string& given_names = settings.text("class-names");
  ASSIGN_OR_RETURN(std::string class_names, given_names.empty()
                                                ? Result<std::string>(std::string())
                                                : settings::expand_path(given_names, environment, "--class-names"));
  ASSIGN_OR_RETURN(data::DataOptions datasets, dataset_options(settings, std::move(source), std::move(class_names)));
  ASSIGN_OR_RETURN(data::LoaderOptions loading, loader_options(settings));
  return DataConfig{.given = settings.text("data"),
                    .datasets = std::move(datasets),
                    .sampling = sampler_options(settings),
                    .balanced = settings.text("sampling") == "balanced",
                    .global_batch = settings.integer("global-batch"),
                    .loading = std::move(loading),
                    .pixel_type = pixel_type(settings.text("image-dtype")),
                    .train_workers = workers(settings, "train-num-workers"),
                    .valid_workers = workers(settings, "valid-num-workers"),
                    .index_folder = std::move(index_folder),
                    .benchmark_epochs = settings.integer("benchmark-epochs")};
}

}  // namespace rollcall::config
