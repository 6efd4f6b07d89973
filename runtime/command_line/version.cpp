#include "runtime/command_line/version.h"

namespace rollcall::command_line {

nlohmann::ordered_json build_facts(std::string_view program) {
  constexpr std::string_view kCommit = ROLLCALL_COMMIT;
  return {{"program", program},
          {"version", ROLLCALL_VERSION},
          {kCommit.empty() ? "released" : "commit", kCommit.empty() ? ROLLCALL_RELEASE_DATE : kCommit},
          {"compiler", ROLLCALL_COMPILER},
          {"build_type", ROLLCALL_BUILD_TYPE},
          {"architecture", ROLLCALL_ARCHITECTURE}};
}

}  // namespace rollcall::command_line
