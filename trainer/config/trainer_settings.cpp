#include <vector>

#include "trainer/config/options.h"
#include "trainer/config/settings_groups.h"

namespace rollcall::config {

settings::Table trainer_table() {
  static const std::vector<settings::Setting> table = [] {
    std::vector<settings::Setting> all;
    for (const settings::Table part : {data_settings(), training_settings(), parallel_settings(), run_settings()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return table;
}

}  // namespace rollcall::config
