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

/// Thrown where a watched collective fails, with all that the ranks found out about it. PeerLost, PeerLate:
/// a peer was lost or did not come in time; DeviceLost: this rank's own; Mismatch: ranks called different collectives.
class CollectiveFailure : public c10::DistError {
 public:
  explicit CollectiveFailure(rollcall::Error error)
      : c10::DistError(c10::SourceLocation{__func__, __FILE__, __LINE__}, error.message()), error_(std::move(error)) {}

  [[nodiscard]] const rollcall::Error& error() const { return error_; }

 private:
  rollcall::Error error_;
};

/// Who speaks in an error: "rank 3 of 4 on jwb0002".
struct Speaker {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;

  [[nodiscard]] std::string text() const;
};

/// Returns the first line of an exception's text: LibTorch appends stacks in further lines.
[[nodiscard]] std::string first_line(const std::string& text);

/// Returns the first line of a library's text without Gloo's source location and advice. With setting debug, which sets
/// TORCH_DISTRIBUTED_DEBUG, they stay.
[[nodiscard]] std::string library_text(const std::string& text);

/// The Error (Unavailable) of what LibTorch or the standard library throws when an allocation fails; nothing for any
/// other exception.
[[nodiscard]] std::optional<Error> out_of_memory(const std::exception& error);

/// The Error of what a device's driver says to this process alone: (DeviceOutOfMemory, DeviceLost) where it is the
/// memory or the device that fails; (Internal) a program that used it wrongly. Nothing for any other exception.
[[nodiscard]] std::optional<Error> failure_of_device(const std::exception& error);
/// Whether `error` is one of this rank alone: no peer was lost.
[[nodiscard]] inline bool is_of_device(const Error& error) {
  return error.kind == ErrorKind::DeviceLost || error.kind == ErrorKind::DeviceOutOfMemory;
}

/// What code that calls LibTorch threw.
struct Caught {
  Error error;
  /// Whether that is all of it: a CollectiveFailure's, or one of memory or of the device. Else only its reason, the
  /// exception's first line, and its kind: Internal where LibTorch does not do what it was asked for, and for
  /// what no network throws (std::logic_error, std::system_error); PeerLost for c10d's exceptions and all others: Gloo
  /// throws classes of its own.
  bool explained = false;
};

/// Runs `work` and says what it threw; nothing where all went well.
[[nodiscard]] std::optional<Caught> catch_exception(const std::function<void()>& work);

/// Runs `work`, which calls c10d. What it throws becomes an Error (PeerLost): setting `setting`, value who speaks,
/// reason `what` and the first line of the exception, and the given action; where it is explained (see Caught) that
/// one.
[[nodiscard]] Result<void> catch_exceptions(const Speaker& speaker, const std::string& setting, const std::string& what,
                                            const std::string& action, const std::function<void()>& work);

}  // namespace rollcall::process_group
