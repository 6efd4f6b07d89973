#include "runtime/base/error_kind.h"

namespace rollcall {

ExitCode exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Usage:
      return ExitCode::Usage;
    case ErrorKind::Configuration:
      return ExitCode::Configuration;
    case ErrorKind::BadData:
      return ExitCode::BadData;
    case ErrorKind::NoInput:
      return ExitCode::NoInput;
    case ErrorKind::CannotCreate:
      return ExitCode::CannotCreate;
    case ErrorKind::InputOutput:
      return ExitCode::InputOutput;
    case ErrorKind::Mismatch:
      return ExitCode::Mismatch;
    case ErrorKind::Unavailable:
    case ErrorKind::RendezvousUnanswered:
    case ErrorKind::PeerLost:
    case ErrorKind::PeerTimeout:
    case ErrorKind::DeviceLost:
    case ErrorKind::DeviceOutOfMemory:
      return ExitCode::Unavailable;
    case ErrorKind::Interrupted:
      return ExitCode::Interrupted;
    case ErrorKind::NotExecutable:
      return ExitCode::NotExecutable;
    case ErrorKind::NotFound:
      return ExitCode::NotFound;
    case ErrorKind::Internal:
      break;
  }
  return ExitCode::Internal;
}

std::optional<ErrorKind> error_kind(int number) {
  const bool is_known = number >= static_cast<int>(ErrorKind::Usage) && number <= static_cast<int>(ErrorKind::Internal);
  return is_known ? std::optional(static_cast<ErrorKind>(number)) : std::nullopt;
}

}  // namespace rollcall
