#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::config {

/// Applies the recipe that setting `recipe` names: a TOML file whose table [trainer] has published settings. A NAME is
/// looked for in share/rollcall/recipes of this installation; a value with a slash or the ending .toml is a path. A
/// value of the recipe replaces defaults and those of the site profile, not those of the user's file, of variables and
/// of the command line. Errors: no such recipe; those of apply_toml_file(); the site profile locks a setting.
[[nodiscard]] Result<void> apply_recipe(settings::Settings& settings);

/// Applies the settings of a stored model that belong to the model and its images, from `then`, the TrainConfig::json
/// of its training, which the file `path` holds. They replace defaults and those of the site profile and of a recipe. A
/// text that is not such JSON has none. Errors: the site profile locks a setting.
[[nodiscard]] Result<void> apply_settings_of_model(settings::Settings& settings, std::string_view then,
                                                   const std::string& path);

/// Returns the text of --recipe-list: a line for each installed recipe with its name and its first comment. Error
/// (NoInput): the installation has none.
[[nodiscard]] Result<std::string> recipe_list();

}  // namespace rollcall::config
