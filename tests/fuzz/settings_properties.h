#pragma once

#include <string>

#include "runtime/settings/settings.h"
#include "tests/fuzz/require.h"

namespace rollcall::fuzz {

/// Whatever was applied, accepted or refused half-way: each value passes its own check, and both printed forms can be
/// made.
inline void require_sound(const settings::Settings& values) {
  for (const settings::Setting& row : values.table()) {
    settings::Settings fresh(values.table());
    const Result<void> set = fresh.set(row.name, values.text(row.name), "again");
    require(bool(set), "a value that was accepted is accepted again");
    require(fresh.text(row.name) == values.text(row.name), "a value is in normal form");
  }
  require(!settings::print_config(values, false).empty(), "the configuration can be printed");
  require(!settings::print_config(values, true).empty(), "the configuration can be printed as JSON");
}

}  // namespace rollcall::fuzz
