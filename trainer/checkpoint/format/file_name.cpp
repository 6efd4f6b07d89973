#include "trainer/checkpoint/format/file_name.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/host.h"

namespace rollcall::checkpoint::format {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".h5";
constexpr std::string_view kTemporaryMark = ".tmp-";

/// HOST-PID
bool parse_writer(std::string_view text, FileName& name) {
  const auto dash = text.rfind('-');
  const auto pid = dash == std::string_view::npos ? std::nullopt : parse_integer<pid_t>(text.substr(dash + 1));
  if (!pid || *pid <= 0) {
    return false;
  }
  name.kind = NameKind::Temporary;
  name.writer_host = text.substr(0, dash);
  name.writer_pid = *pid;
  return true;
}

bool parse_ending(std::string_view ending, FileName& name) {
  if (ending.starts_with(kTemporaryMark)) {
    return parse_writer(ending.substr(kTemporaryMark.size()), name);
  }
  if (ending == kDamagedEnding) {
    name.kind = NameKind::SetAside;
  } else if (ending == kSupersededEnding) {
    name.kind = NameKind::Superseded;
  }
  return ending.empty() || name.kind != NameKind::Checkpoint;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}{}", kPrefix, step, kSuffix); }

std::optional<FileName> parse_file_name(std::string_view text) {
  const auto suffix = text.find(kSuffix);
  if (!text.starts_with(kPrefix) || suffix == std::string_view::npos) {
    return std::nullopt;
  }
  const auto step = parse_integer<std::int64_t>(text.substr(kPrefix.size(), suffix - kPrefix.size()));
  FileName name;
  if (!step || !parse_ending(text.substr(suffix + kSuffix.size()), name)) {
    return std::nullopt;
  }
  name.step = *step;
  return name;
}

bool writer_is_dead(const FileName& name, const std::string& path) {
  if (name.writer_host == host_name()) {
    return name.writer_pid != ::getpid() && ::kill(name.writer_pid, 0) != 0 && errno == ESRCH;
  }
  std::error_code unknown;
  const auto written = std::filesystem::last_write_time(path, unknown);
  return !unknown && std::filesystem::file_time_type::clock::now() - written > std::chrono::hours(24);
}

}  // namespace rollcall::checkpoint::format
