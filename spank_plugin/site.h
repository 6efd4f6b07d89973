#pragma once

namespace rollcall::spank {

/// The arguments of this plugin's line in plugstack.conf; null where it does not have one.
struct Site {
  const char* config = nullptr;        ///< config=PATH, the site profile
  const char* config_owner = nullptr;  ///< config_owner=any|UID
  const char* task_prolog = nullptr;   ///< task_prolog=PATH, only in a user's own plugstack.conf
  const char* program = nullptr;       ///< rollcall=PATH; null: the program of the plugin's installation
  const char* log = nullptr;           ///< log=syslog
};

}  // namespace rollcall::spank
