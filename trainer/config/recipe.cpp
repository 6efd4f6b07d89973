#include "trainer/config/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/settings/layers.h"
#include "runtime/settings/values.h"
#include "trainer/config/identity.h"
#include "trainer/config/named_files.h"
#include "trainer/config/options.h"

namespace rollcall::config {
namespace {

using settings::Settings;

constexpr std::string_view kEnding = ".toml";
const std::string kRecipe = "recipe ";  // the origin of its values begins with this

/// What a model is, what its images look like, and which of them it was not trained on. A new setting that changes one
/// of these belongs here.
constexpr auto kOfModel = std::to_array<std::string_view>(
    {"model", "data", "fake-size", "seed", "image-size", "valid-image-size", "valid-resize", "valid-flip",
     "interpolation", "mean", "std", "exif-orientation", "dct-scaling", "resnet-stem", "blurpool", "loss"});

/// Returns the names of the recipes in `folder`, in alphabetical order.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == kEnding) {
      names.push_back(entry.path().stem());
    }
  }
  std::ranges::sort(names);
  return names;
}

Result<std::filesystem::path> recipes_folder() {
  const FoundInstalled found = find_in_installation(std::filesystem::path("share") / "rollcall" / "recipes");
  if (!found.file) {
    return fail("--recipe", "", found.passed_over.empty() ? "this installation has no recipes" : found.passed_over,
                "--recipe=FILE", ErrorKind::NoInput);
  }
  return *found.file;
}

Result<std::string> file_of(const std::string& recipe) {
  if (recipe.find('/') != std::string::npos || recipe.ends_with(kEnding)) {
    return recipe;
  }
  ASSIGN_OR_RETURN(const std::filesystem::path folder, recipes_folder());
  const std::vector<std::string> names = names_in(folder);
  if (std::ranges::find(names, recipe) == names.end()) {
    const auto meant = nearest(recipe, names);
    return fail("--recipe", recipe, "is not a known recipe",
                meant ? "--recipe=" + *meant : "rollcall-train --recipe-list");
  }
  return (folder / (recipe + std::string(kEnding))).string();
}

/// Whether the user gave the value, and not the default or the site profile.
bool is_of_user(const Settings& settings, std::string_view name) {
  const std::string& origin = settings.value(name).origin;
  return origin != "default" && !(settings.site() && origin == settings.site()->file);
}

}  // namespace

Result<void> apply_recipe(Settings& settings) {
  const std::string& recipe = settings.text("recipe");
  if (recipe == "none") {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string file, file_of(recipe));
  Settings published(settings.table());
  RETURN_IF_ERROR(settings::apply_toml_file(published, file, true, settings::kTrainerSection));
  if (!published.is_default("recipe")) {
    return fail("--recipe", recipe, "has the key recipe itself, but a recipe cannot contain another",
                "copying the other recipe's values into it", ErrorKind::Configuration);
  }
  if (std::ranges::all_of(settings.table(), [&](const auto& each) { return published.is_default(each.name); })) {
    return fail("--recipe", recipe, "sets nothing in a table [trainer]", "writing [trainer] above its keys",
                ErrorKind::Configuration);
  }
  for (const settings::Setting& setting : settings.table()) {
    if (!published.is_default(setting.name) && !is_of_user(settings, setting.name)) {
      RETURN_IF_ERROR(settings.set(setting.name, published.text(setting.name), kRecipe + recipe));
    }
  }
  return {};
}

Result<void> apply_settings_of_model(Settings& settings, std::string_view then, const std::string& path) {
  for (const settings::Setting& setting : settings.table()) {
    const bool is_free =
        !is_of_user(settings, setting.name) || settings.value(setting.name).origin.starts_with(kRecipe);
    const std::string value = setting_then(then, setting.name);
    if (setting.name == "model" && is_script(value)) {  // its code runs, so it is not taken from a file
      RETURN_IF_ERROR(confirm_script(settings, value, path));
      continue;
    }
    if (is_free && !value.empty() && std::ranges::find(kOfModel, setting.name) != kOfModel.end()) {
      RETURN_IF_ERROR(settings.set(setting.name, value, path));
    }
  }
  return {};
}

Result<std::string> recipe_list() {
  ASSIGN_OR_RETURN(const std::filesystem::path folder, recipes_folder());
  std::string text;
  for (const std::string& name : names_in(folder)) {
    std::ifstream file(folder / (name + std::string(kEnding)));
    std::string line;
    std::getline(file, line);
    text += fmt::format("{:<16}  {}\n", name, trim(std::string_view(line).substr(line.starts_with('#') ? 1 : 0)));
  }
  return text;
}

}  // namespace rollcall::config
