#include "trainer/tools/top/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>

#include "runtime/base/file.h"

namespace rollcall::top {
namespace {

termios g_terminal_before{};
bool g_keys_at_once = false;
volatile std::sig_atomic_t g_ended = 0;

void note_end(int /*signal*/) { g_ended = 1; }
void note_nothing(int /*signal*/) {}  // it interrupts the wait

/// A closed terminal is told by the next signal.
void write_to_terminal(std::string_view text) { (void)write_all(STDOUT_FILENO, text); }

void catch_signal(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

Result<void> Screen::check() {
  if (::isatty(STDOUT_FILENO) == 0) {
    return fail("standard output", "", "is no terminal", "--once for what a terminal would show now, or --once --json");
  }
  return {};
}

Screen::Screen() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    catch_signal(number, note_end);
  }
  catch_signal(SIGWINCH, note_nothing);
  if (::tcgetattr(STDIN_FILENO, &g_terminal_before) == 0) {
    termios keys = g_terminal_before;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    g_keys_at_once = ::tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
  }
  write_to_terminal("\x1b[?1049h\x1b[?25l\x1b[2J");
}

Screen::~Screen() {
  write_to_terminal("\x1b[?25h\x1b[?1049l");
  if (g_keys_at_once) {
    ::tcsetattr(STDIN_FILENO, TCSANOW, &g_terminal_before);
  }
}

Screen::Size Screen::size() const {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  return known ? Size{size.ws_col, size.ws_row} : Size{};
}

void Screen::show(const std::vector<std::string>& lines) const {
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += lines[i] + "\x1b[K" + (i + 1 < lines.size() ? "\r\n" : "");
  }
  write_to_terminal(text + "\x1b[J");
}

bool Screen::told_to_end_within(double seconds) const {
  std::array<pollfd, 1> keys{{{.fd = g_keys_at_once ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
  const int ready = g_ended != 0 ? 0 : ::poll(keys.data(), keys.size(), static_cast<int>(1000 * seconds));
  char key = 0;
  if (ready > 0 && ::read(STDIN_FILENO, &key, 1) <= 0) {
    return true;  // the terminal is gone
  }
  return g_ended != 0 || key == 'q' || key == 'Q' || key == '\x1b';
}

}  // namespace rollcall::top
