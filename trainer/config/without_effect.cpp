#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/settings/values.h"
#include "trainer/config/named_files.h"
#include "trainer/config/train_config.h"

namespace rollcall::config {
namespace {

using settings::Settings;

/// A setting that has an effect only if another one has, or does not have, a certain value.
struct Dependent {
  std::string_view setting;
  std::string_view unused;  ///< value that needs no effect; "": every value on the command line needs one
  std::string_view other;
  std::string_view values;       ///< values of `other`, separated by "|"
  bool has_effect;               ///< true: only with these values; false: only with other values
  std::string_view advice = {};  ///< value of `other` that gives the setting an effect, if `values` do not
};

constexpr std::string_view kScript = "FILE.pt";  ///< of `model`: any TorchScript file

constexpr std::array kDependents{
    Dependent{"momentum", "", "optimizer", "sgd|lars|rmsprop", true},
    Dependent{"nesterov", "false", "optimizer", "sgd", true},
    Dependent{"lars-trust", "", "optimizer", "lars", true},
    Dependent{"rmsprop-alpha", "", "optimizer", "rmsprop", true},
    Dependent{"adam-beta1", "", "optimizer", "adamw|lamb", true},
    Dependent{"adam-beta2", "", "optimizer", "adamw|lamb", true},
    Dependent{"adam-eps", "", "optimizer", "adamw|lamb|rmsprop", true},
    Dependent{"ema-steps", "", "ema", "0", false, "0.9999"},
    Dependent{"lr-step-epochs", "", "lr-schedule", "step", true},
    Dependent{"lr-milestones", "", "lr-schedule", "milestones", true},
    Dependent{"lr-power", "", "lr-schedule", "polynomial", true},
    Dependent{"lr-step-factor", "", "lr-schedule", "step|milestones", true},
    Dependent{"lr-end-factor", "", "lr-schedule", "cosine|linear|polynomial|one-cycle", true},
    Dependent{"warmup-start-factor", "", "warmup-epochs", "0", false, "5"},
    Dependent{"grad-accumulation", "", "global-batch", "0", true},
    Dependent{"lr-scaling", "", "global-batch", "0", true},
    Dependent{"scale-optim-params", "false", "global-batch", "0", true},
    Dependent{"randaugment-ops", "", "auto-augment", "randaugment|randaugment-timm", true},
    Dependent{"randaugment-magnitude", "", "auto-augment", "randaugment|randaugment-timm", true},
    Dependent{"randaugment-mstd", "", "auto-augment", "randaugment-timm", true},
    Dependent{"random-erase-value", "", "random-erase", "0", false, "0.25"},
    Dependent{"shuffle-window", "0", "sampling", "shuffle", true},
    Dependent{"early-stopping", "0", "valid-epochs", "0", false, "1"},
    Dependent{"bce-target-threshold", "0", "loss", "bce", true},
    Dependent{"label-smoothing", "0", "loss", "multi-label", false, "bce"},
    Dependent{"class-weights", "none", "loss", "multi-label", false, "bce"},
    Dependent{"sampling", "shuffle", "loss", "multi-label", false, "bce"},
    Dependent{"max-bad-samples", "", "bad-samples", "skip", true},
    Dependent{"tensorboard-histograms", "0", "tensorboard", "true", true},
    Dependent{"evaluate-split", "valid", "evaluate", "", false, "FILE"},
    Dependent{"elastic", "false", "evaluate", "", true},

    // The layers of a script are fixed.
    Dependent{"zero-init-residual", "false", "model", kScript, false, "resnet50"},
    Dependent{"stochastic-depth", "0", "model", kScript, false, "resnet50"},
    Dependent{"dropout", "0", "model", kScript, false, "resnet50"},
    Dependent{"init", "torchvision", "model", kScript, false, "resnet50"},
    Dependent{"resnet-stem", "standard", "model", kScript, false, "resnet50"},
    Dependent{"blurpool", "false", "model", kScript, false, "resnet50"},
    Dependent{"sync-bn", "false", "model", kScript, false, "resnet50"},
    Dependent{"param-dtype", "fp32", "model", kScript, false, "resnet50"},

    Dependent{"shard-degree", "0", "parallel", "fsdp", true},
    Dependent{"replicate-degree", "0", "parallel", "fsdp", true},
    Dependent{"reshard-after-forward", "on", "parallel", "fsdp", true},
    Dependent{"param-dtype", "fp32", "parallel", "fsdp", true},
    Dependent{"reduce-dtype", "fp32", "parallel", "fsdp", true},
    Dependent{"accumulate", "whole", "parallel", "fsdp", true},
    Dependent{"cpu-offload", "false", "parallel", "fsdp", true},
    Dependent{"replicate-to", "none", "parallel", "fsdp", true},
    Dependent{"replicate-to", "none", "elastic", "true", true},
    Dependent{"replicate-steps", "", "replicate-to", "none", false, "neighbour"},
    Dependent{"find-unused-parameters", "false", "parallel", "fsdp", false, "ddp"},
    Dependent{"static-graph", "false", "parallel", "fsdp", false, "ddp"},
    Dependent{"broadcast-buffers", "true", "parallel", "fsdp", false, "ddp"},
    Dependent{"gradient-compression", "none", "parallel", "fsdp", false, "ddp"},
    Dependent{"first-bucket", "1", "parallel", "fsdp", false, "ddp"},
    Dependent{"bucket", "25", "parallel", "fsdp", false, "ddp"},

    // An exact training has no buckets, and computes virtual ranks one after the other.
    Dependent{"elastic-exact-threads", "", "elastic-exact", "0", false, "N"},
    Dependent{"find-unused-parameters", "false", "elastic-exact", "0", true},
    Dependent{"static-graph", "false", "elastic-exact", "0", true},
    Dependent{"broadcast-buffers", "true", "elastic-exact", "0", true},
    Dependent{"gradient-compression", "none", "elastic-exact", "0", true},
    Dependent{"first-bucket", "1", "elastic-exact", "0", true},
    Dependent{"bucket", "25", "elastic-exact", "0", true},
    Dependent{"sync-bn", "false", "elastic-exact", "0", true},
    Dependent{"parallel", "ddp", "elastic-exact", "0", true},
};

/// Compares as text and as a number: "0.0" is 0.
bool has_value(const Settings& settings, std::string_view name, std::string_view value) {
  const std::string& text = settings.text(name);
  if (value == kScript) {
    return is_script(text);
  }
  const std::optional<double> number = settings::parse_number(text);
  return text == value || (number && number == settings::parse_number(value));
}

bool has_one_of(const Settings& settings, std::string_view name, std::string_view values) {
  return (values.empty() && settings.text(name).empty()) ||
         std::ranges::any_of(split(values, '|'),
                             [&](const std::string& value) { return has_value(settings, name, value); });
}

/// Whether the user expects an effect: an option does, while a profile or a file may have values for other runs.
bool is_asked_for(const Settings& settings, const Dependent& dependent) {
  const bool typed = settings.value(dependent.setting).origin.starts_with("--");
  if (dependent.unused.empty() || dependent.other == "optimizer") {
    return typed && (dependent.unused.empty() || !has_value(settings, dependent.setting, dependent.unused));
  }
  return !has_value(settings, dependent.setting, dependent.unused);
}

std::string option(const Settings& settings, std::string_view name, std::string_view value) {
  const bool is_switch = settings::find_setting(settings.table(), name)->kind == settings::Kind::Switch;
  const std::string_view shown = !is_switch ? value : value == "true" ? "on" : "off";
  return "--" + std::string(name) + "=" + std::string(shown);
}

}  // namespace

Result<void> check_options_have_effect(const Settings& settings, Use use) {
  const bool trains = use == Use::Training && settings.text("evaluate").empty();
  for (const Dependent& dependent : kDependents) {
    const auto& [name, unused, other, values, has_effect, advice] = dependent;
    const bool matters = trains || other != "loss";
    if (matters && is_asked_for(settings, dependent) && has_one_of(settings, other, values) != has_effect) {
      const bool contradicts = (other == "elastic-exact" && has_effect) || values == kScript;
      return fail("--" + std::string(name), settings.text(name),
                  (contradicts ? "cannot be combined with " : "has no effect with ") +
                      option(settings, other, without_checksum(settings.text(other))),
                  // Without --global-batch a recipe's rate would be one for each rank. What depends on the loss may be
                  // a recipe's too, so that there is nothing to leave out.
                  other == "global-batch"
                      ? "leaving it out"
                      : option(settings, other, has_effect ? values.substr(0, values.find('|')) : advice) + ", or " +
                            (other == "loss" ? option(settings, name, unused) : "leaving it out"));
    }
  }
  return {};
}

}  // namespace rollcall::config
