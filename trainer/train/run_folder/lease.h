#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall::train {

/// The right to write to a run's folders, which one run has at a time: the file `lease.json` in each, which says who
/// that is, and whose time of change its holder renews every few seconds. No lock of the file system's is asked for:
/// Lustre is mounted without them at many sites.
///
/// Whoever finds the file asks whether its holder still runs: on the same host the kernel, elsewhere Slurm, whose jobs
/// end and restart. Where neither knows, a holder that renews nothing for the time that a run waits is taken for dead.
/// A holder that was taken for dead and is not (its process was stopped, its file system stood still) finds another
/// one's name in the file, or no file where that one has ended: lost().
class Lease {
 public:
  /// The time between two renewals.
  static constexpr std::chrono::seconds kRenewal{5};

  struct Folder {
    std::string setting;  ///< that names it: "--run-dir"
    std::string path;     ///< exists
  };

  /// Takes the lease of `folders`, one after the other; waits at most `patience` for another holder to end or to be
  /// found dead, and tells so by `say`, once a folder; and beyond that, in each, at most three renewals, where none has
  /// come lately. Who is dead in one folder is so in the next.
  ///
  /// Errors: CannotCreate: another run writes there, or the file cannot be made; InputOutput. Then none is held.
  [[nodiscard]] static Result<Lease> take(const std::vector<Folder>& folders, const Environment& environment,
                                          std::chrono::duration<double> patience,
                                          const std::function<void(const std::string&)>& say);
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  /// Gives it back. Waits for a renewal that is under way, but not for a file system that stands still.
  ~Lease();

  /// Whether another run has a folder by now. Any thread; does not look at the file system.
  [[nodiscard]] bool lost() const;
  /// As lost(), after a look at the file. Any thread.
  [[nodiscard]] bool lost_by_now() const;
  /// What a run ends with that has lost it.
  [[nodiscard]] Error taken_over() const;

 private:
  struct State;
  explicit Lease(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;  ///< null: moved from
};

/// What a run ends with whose lease of `folder` another one has taken.
[[nodiscard]] Error taken_over(const Lease::Folder& folder);

}  // namespace rollcall::train
