#include "trainer/checkpoint/format/file_state.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"

namespace rollcall::checkpoint::format {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".h5";
constexpr std::string_view kTemporaryMark = ".tmp-";

/// Parses HOST-PID.
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
  } else if (ending.starts_with(kSupersededEnding)) {
    name.kind = NameKind::Superseded;
  }
  return ending.empty() || name.kind != NameKind::Checkpoint;
}

constexpr std::array kNames{
    std::pair{FileState::Committed, "committed"},   std::pair{FileState::Writing, "being written"},
    std::pair{FileState::Unfinished, "unfinished"}, std::pair{FileState::Unnamed, "finished but never named"},
    std::pair{FileState::Damaged, "damaged"},       std::pair{FileState::SetAside, "set aside as damaged"},
    std::pair{FileState::Superseded, "superseded"}, std::pair{FileState::Newer, "of a newer format"},
    std::pair{FileState::Unreadable, "unreadable"}, std::pair{FileState::Foreign, "no checkpoint"},
};

FileStatus of_error(const Error& error) {
  switch (error.kind) {
    case ErrorKind::BadData:
      return {FileState::Damaged, error.reason};
    case ErrorKind::Mismatch:
      return {FileState::Newer, error.reason};
    default:
      return {FileState::Unreadable, error.reason};
  }
}

FileStatus of_content(const std::string& path, VerifyLevel level) {
  const Result<void> verified = verify_file(path, level);
  return verified ? FileStatus{FileState::Committed, ""} : of_error(verified.error());
}

FileStatus of_temporary(const std::string& path, const FileName& name) {
  if (!writer_is_dead(name, path)) {
    return {FileState::Writing, ""};
  }
  return {CheckpointReader::open(path) ? FileState::Unnamed : FileState::Unfinished, ""};
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

std::string temporary_name(const std::string& path) {
  return path + std::string(kTemporaryMark) + this_host_name() + "-" + std::to_string(::getpid());
}

bool writer_is_dead(const FileName& name, const std::string& path) {
  if (name.writer_host == this_host_name()) {
    return name.writer_pid != ::getpid() && ::kill(name.writer_pid, 0) != 0 && errno == ESRCH;
  }
  std::error_code unknown;
  const auto written = std::filesystem::last_write_time(path, unknown);
  return !unknown && std::filesystem::file_time_type::clock::now() - written > std::chrono::hours(24);
}

std::string_view state_name(FileState state) {
  for (const auto& [named, text] : kNames) {
    if (named == state) {
      return text;
    }
  }
  return "";
}

FileStatus examine(const std::string& path, VerifyLevel level) {
  const auto name = parse_file_name(std::filesystem::path(path).filename().string());
  if (!name) {
    FileStatus status = of_content(path, level);
    const bool foreign = status.state == FileState::Damaged && !CheckpointReader::open(path);
    return foreign ? FileStatus{FileState::Foreign, status.reason} : status;
  }
  switch (name->kind) {
    case NameKind::SetAside:
      return {FileState::SetAside, ""};
    case NameKind::Superseded:
      return {FileState::Superseded, ""};
    case NameKind::Temporary:
      return of_temporary(path, *name);
    case NameKind::Checkpoint:
      break;
  }
  return of_content(path, level);
}

}  // namespace rollcall::checkpoint::format
