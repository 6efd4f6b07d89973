#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rollcall::checkpoint::format {

/// What a name in a folder of checkpoints says of its file.
enum class NameKind {
  Checkpoint,  ///< "step-00000123.h5"
  SetAside,    ///< "step-00000123.h5.damaged": was found damaged
  Superseded,  ///< "step-00000123.h5.superseded": of a run that was abandoned for another one
  Temporary,   ///< "step-00000123.h5.tmp-HOST-PID": is being written, or its writer died
};

struct FileName {
  NameKind kind = NameKind::Checkpoint;
  std::int64_t step = 0;    ///< steps (of all epochs) done when it was saved
  std::string writer_host;  ///< of temporaries; host names may hold '-'
  pid_t writer_pid = 0;
};

inline constexpr std::string_view kDamagedEnding = ".damaged";
inline constexpr std::string_view kSupersededEnding = ".superseded";

/// "step-00000123.h5"
[[nodiscard]] std::string checkpoint_name(std::int64_t step);

/// Nothing for names of other things. `name` has no folder.
[[nodiscard]] std::optional<FileName> parse_file_name(std::string_view name);

/// Whether the process that writes `path`, named so, is dead as far as can be told: on this host if there is no such
/// process, on another if it has not written for a day.
[[nodiscard]] bool writer_is_dead(const FileName& name, const std::string& path);

}  // namespace rollcall::checkpoint::format
