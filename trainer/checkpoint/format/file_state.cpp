#include "trainer/checkpoint/format/file_state.h"

#include <array>
#include <filesystem>
#include <utility>

#include "trainer/checkpoint/format/file_name.h"

namespace rollcall::checkpoint::format {
namespace {

constexpr std::array kNames{
    std::pair{FileState::Committed, "committed"},   std::pair{FileState::Writing, "being written"},
    std::pair{FileState::Unfinished, "unfinished"}, std::pair{FileState::Unnamed, "finished but never named"},
    std::pair{FileState::Damaged, "damaged"},       std::pair{FileState::SetAside, "set aside as damaged"},
    std::pair{FileState::Superseded, "superseded"}, std::pair{FileState::Newer, "of a newer format"},
    std::pair{FileState::Unreadable, "unreadable"}, std::pair{FileState::Foreign, "no checkpoint"},
};

FileStatus of_error(const Error& error) {
  switch (error.exit_code) {
    case ExitCode::BadData:
      return {FileState::Damaged, error.reason};
    case ExitCode::Mismatch:
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
