#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall::train {

/// The right to write to a run's folders, which one run has at a time: a file `lease.json` in each folder that names
/// the holder, who renews its modification time every few seconds. It uses no file locks, because many sites mount
/// Lustre without them.
///
/// A run that finds the file checks whether its holder still runs: on the same host it asks the kernel, elsewhere
/// Slurm, whose jobs end and restart. If neither knows, a holder that renews nothing for the time that a run waits is
/// considered dead. A holder that was wrongly considered dead (its process was stopped, or its file system did not
/// respond) finds another name in the file, or no file if that run has ended: lost().
class Lease {
 public:
  /// The time between two renewals.
  static constexpr std::chrono::seconds kRenewal{5};

  struct Folder {
    std::string setting;  ///< option that names it: "--run-dir"
    std::string path;     ///< an existing folder
  };

  /// Takes the lease of `folders`, one after the other. Waits at most `patience` for another holder to end or to be
  /// found dead, and reports this by `say`, once for each folder; beyond that it waits in each folder for at most three
  /// renewals, if none has come recently. A holder found dead in one folder is dead in the next.
  ///
  /// Errors: CannotCreate: another run writes there, or the file cannot be created; InputOutput. Then no lease is held.
  [[nodiscard]] static Result<Lease> take(const std::vector<Folder>& folders, const Environment& environment,
                                          std::chrono::duration<double> patience,
                                          const std::function<void(const std::string&)>& say);
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  /// Returns the lease. Waits for a renewal in progress, but not for a file system that does not respond.
  ~Lease();

  /// Returns whether another run has a folder, without accessing the file system. Any thread.
  [[nodiscard]] bool lost() const;
  /// Does the same as lost(), after reading the file. Any thread.
  [[nodiscard]] bool lost_by_now() const;
  /// Returns the error of a run that has lost the lease.
  [[nodiscard]] Error taken_over() const;

 private:
  struct State;
  explicit Lease(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;  ///< null: moved from
};

/// Returns the error of a run whose lease of `folder` another run has taken.
[[nodiscard]] Error taken_over(const Lease::Folder& folder);

}  // namespace rollcall::train
