#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::top {

/// The terminal of standard output and input while a program shows something that changes: its other screen, no cursor,
/// keys at once. All is put back in the destructor. One at a time.
class Screen {
 public:
  /// Errors (Usage): standard output is no terminal.
  [[nodiscard]] static Result<void> check();
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  struct Size {
    std::size_t width = 80;
    std::size_t height = 24;
  };
  [[nodiscard]] Size size() const;
  /// Shows `lines` in one write, each over what was in its place, so that nothing flickers.
  void show(const std::vector<std::string>& lines) const;
  /// Waits so long, or until a key or a signal says that it is time to end (q, Escape, Ctrl-C, TERM): true. A change of
  /// the terminal's size ends the wait early.
  [[nodiscard]] bool told_to_end_within(double seconds) const;
};

}  // namespace rollcall::top
