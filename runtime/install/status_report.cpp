#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/install/setup.h"

namespace rollcall::install {

std::string way_name(Way way) {
  switch (way) {
    case Way::None:
      return "none";
    case Way::Site:
      return "site";
    case Way::User:
      return "user";
    case Way::SiteAndUser:
      return "site and user";
  }
  return "";
}

std::string status_text(const Status& status) {
  const auto or_unknown = [](const std::string& text) { return text.empty() ? "unknown" : text; };
  std::string text = fmt::format("{:<15}{}\n", "in force", way_name(status.way));
  text += fmt::format("{:<15}{}\n", "slurm.conf", or_unknown(status.slurm_conf));
  text += fmt::format("{:<15}{}\n", "plugstack.conf", or_unknown(status.plugstack));
  text += fmt::format("{:<15}{}\n", "Slurm", or_unknown(status.slurm_version));
  if (!status.plugin.empty()) {
    text += fmt::format("{:<15}{}, for Slurm {}\n", "plugin", status.plugin, or_unknown(status.plugin_version));
  }
  if (!status.config.empty()) {
    text += fmt::format("{:<15}{}\n", "profile", status.config);
  }
  if (status.way == Way::None) {
    text += "without an installation: srun rollcall exec -- PROGRAM; try rollcall install --user\n";
  }
  for (const std::string& problem : status.problems) {
    text.append("problem: ").append(problem).append("\n");
  }
  return text;
}

std::string status_json(const Status& status) {
  const nlohmann::ordered_json json{{"way", way_name(status.way)},
                                    {"slurm_conf", status.slurm_conf},
                                    {"plugstack", status.plugstack},
                                    {"plugin", status.plugin},
                                    {"plugin_version", status.plugin_version},
                                    {"slurm_version", status.slurm_version},
                                    {"config", status.config},
                                    {"problems", status.problems}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rollcall::install
