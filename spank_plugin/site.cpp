#include "spank_plugin/site.h"

#include <string_view>

namespace rollcall::spank {

Site read_site(int argument_count, char** arguments) {
  Site site;
  const struct {
    std::string_view key;
    const char** value;
  } known[]{{"config=", &site.config},
            {"config_owner=", &site.config_owner},
            {"task_prolog=", &site.task_prolog},
            {"rollcall=", &site.program},
            {"log=", &site.log}};
  for (int i = 0; i < argument_count; ++i) {
    for (const auto& [key, value] : known) {
      if (std::string_view(arguments[i]).starts_with(key) && *value == nullptr) {
        *value = arguments[i] + key.size();
      }
    }
  }
  return site;
}

}  // namespace rollcall::spank
