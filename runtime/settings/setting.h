#pragma once

#include <string_view>

namespace rollcall::settings {

/// What texts a setting accepts. Every kind is checked where the value comes in, so that readers never see a bad one.
enum class Kind {
  Text,       ///< any text
  Integer,    ///< a decimal integer within [minimum, maximum]
  Number,     ///< a finite decimal number within [minimum, maximum]
  Switch,     ///< true|false, also on|off, yes|no, 1|0; an option without a value means true
  Choice,     ///< one of `choices`
  Path,       ///< a path; may hold ${SCRATCH}-like variables of a fixed list, see path_expansion.h
  List,       ///< words separated by commas, at least one
  PortRange,  ///< "first-last", 1 <= first <= last <= 65535
};

/// One row of a settings table. From it come the option, the variable, the TOML key, `--help`, the check of the value
/// and the row in docs/settings.md. `name` "port.range" is: option `--port-range`, variable ROLLCALL_PORT_RANGE, TOML
/// `[port] range = ...`, and `--ddp=port.range=...`; "epochs" (no dot) is `--epochs`, ROLLCALL_EPOCHS, `epochs = ...`.
/// Users mix up '.', '-' and '_', so they count as the same wherever a name comes in: "port-range" works in TOML too.
struct Setting {
  std::string_view name;
  Kind kind = Kind::Text;
  std::string_view default_text;  ///< in the notation of `kind`; must pass its own check (a test proves it)
  std::string_view argument;      ///< shown in --help: "N", "DIR", "NAME[,NAME...]"
  std::string_view help;          ///< one sentence, no full stop, unit included where there is one
  std::string_view group;         ///< heading in --help and docs
  std::string_view choices =
      "";                   ///< Kind::Choice: "sgd|adamw". Others: further fixed words that are accepted too, as "auto"
  double minimum = -1e300;  ///< Integer, Number: inclusive
  double maximum = 1e300;   ///< Integer, Number: inclusive
};

}  // namespace rollcall::settings
