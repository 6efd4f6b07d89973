#pragma once

#include <c10/util/Exception.h>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/result.h"

namespace rollcall::process_group {

/// Thrown when a watched collective fails, with what the ranks found out about it. PeerLost, PeerTimeout: a peer was
/// lost or late; DeviceLost: this rank's own device failed; Mismatch: ranks called different collectives.
class CollectiveFailure : public c10::DistError {
 public:
  explicit CollectiveFailure(rollcall::Error error)
      : c10::DistError(c10::SourceLocation{__func__, __FILE__, __LINE__}, error.message()), error_(std::move(error)) {}

  [[nodiscard]] const rollcall::Error& error() const { return error_; }

 private:
  rollcall::Error error_;
};

/// The rank that reports an error: "rank 3 of 4 on jwb0002".
struct ReportingRank {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;

  [[nodiscard]] std::string text() const;
};

/// Returns the first line of an exception's text: LibTorch appends stacks in further lines.
[[nodiscard]] std::string first_line(const std::string& text);

/// Returns the first line of a library's text without Gloo's source location and advice. With setting debug, which sets
/// TORCH_DISTRIBUTED_DEBUG, they stay.
[[nodiscard]] std::string library_text(const std::string& text);

/// Returns the error (Unavailable) for an exception of LibTorch or the standard library after a failed allocation;
/// unset for any other exception.
[[nodiscard]] std::optional<Error> out_of_memory(const std::exception& error);

/// Returns the error for a failure that a device's driver reports to this process: DeviceOutOfMemory, DeviceLost, or
/// Internal if the program used the device wrongly. Unset for any other exception.
[[nodiscard]] std::optional<Error> device_error(const std::exception& error);
/// Returns whether `error` concerns only this rank's device: no peer was lost.
[[nodiscard]] inline bool is_device_failure(const Error& error) {
  return error.kind == ErrorKind::DeviceLost || error.kind == ErrorKind::DeviceOutOfMemory;
}

/// An exception of code that calls LibTorch, as an error.
struct Caught {
  Error error;
  /// Whether `error` is complete: a CollectiveFailure's, or one of memory or of the device. Otherwise only its reason,
  /// the exception's first line, and its kind are set. The kind is Internal for c10::Error and for exceptions that no
  /// network code throws (std::logic_error, std::system_error). It is PeerLost for c10d's exceptions and all others:
  /// Gloo throws classes of its own.
  bool explained = false;
};

/// Runs `work` and returns what it threw; unset if it returned normally.
[[nodiscard]] std::optional<Caught> catch_exception(const std::function<void()>& work);

/// Runs `work`, which calls c10d. An exception becomes an error (PeerLost) with `setting`, the rank, `what` with the
/// exception's first line, and `action`; or the complete error of Caught::explained.
[[nodiscard]] Result<void> catch_exceptions(const ReportingRank& speaker, const std::string& setting,
                                            const std::string& what, const std::string& action,
                                            const std::function<void()>& work);

}  // namespace rollcall::process_group
