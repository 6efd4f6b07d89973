// Any bytes as what the user's program answers to the SPANK plugin, which is in root's process, and as what the plugin
// asks of that program. The first byte chooses whose process it is: a task's, or srun's.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/contract/hook_wire.h"
#include "runtime/hooks/plugin_link.h"
#include "spank_plugin/layout.h"
#include "spank_plugin/program.h"
#include "spank_plugin/request.h"
#include "tests/fuzz/require.h"

using namespace rollcall;
using fuzz::require;

namespace {

// Of one answer, for slurmd's log.
constexpr std::size_t kMostBytes = std::size_t{64} << 10;
constexpr int kMostLines = 64;

bool g_of_srun = false;
std::string_view g_answer;
int g_program = -1;          ///< the program's end of the socket
std::size_t g_reported = 0;  ///< bytes of the lines of one answer
int g_lines = 0;

/// The two ends of a socket, of which the second has sent `bytes` and sends no more.
std::array<int, 2> socket_with(std::string_view bytes) {
  std::array<int, 2> ends{};
  const bool made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0;
  require(made && (bytes.empty() ||
                   ::send(ends[1], bytes.data(), bytes.size(), MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size())),
          "an input fits into a socket");
  ::shutdown(ends[1], SHUT_WR);
  return ends;
}

void check_variable(std::string_view name) {
  require(!name.empty() && name.find('=') == name.npos, "a variable has a name");
}

void check_line(const char* format, std::va_list values) {
  static std::array<char, kMostBytes + 1> line;
  const int size = std::vsnprintf(line.data(), line.size(), format, values);
  require(size >= 0 && static_cast<std::size_t>(size) < line.size(), "a line is short");
  g_reported += static_cast<std::size_t>(size);
  require(g_reported <= kMostBytes && ++g_lines <= kMostLines, "an answer does not fill slurmd's log");
  const auto steers = [before = '\0'](char byte) mutable {
    const auto last = static_cast<unsigned char>(std::exchange(before, byte));
    const auto present = static_cast<unsigned char>(byte);
    const bool in_a_character = last >= 0x80 && last != 0xc2;
    return present < ' ' || present == 0x7f || (present >= 0x80 && present <= 0x9f && !in_a_character);
  };
  require(std::none_of(line.data(), line.data() + size, steers), "a line can be shown");
}

/// Reads what the plugin has sent to the program, so that a socket never fills up.
void drain() {
  std::array<char, 65536> bytes{};
  while (::recv(g_program, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
}

void check_answer(std::string_view bytes) {
  g_answer = bytes;
  const spank::Site site{.config_owner = "any", .program = "/bin/sh"};
  for (bool goes_on = true; goes_on;) {
    g_reported = 0;
    g_lines = 0;
    const spank::Failure failure = spank::Request(nullptr, site, -1).ask("task");
    require(failure.exit_code >= 0 && failure.exit_code <= 255, "an exit code is one");
    require(spank::program_runs() == !failure, "a program that failed is ended");
    goes_on = !failure;
    drain();
  }
}

void check_request(std::string_view bytes) {
  const std::array<int, 2> ends = socket_with(bytes);
  hooks::PluginLink plugin(ends[0]);
  while (const std::optional<hooks::Request> request = plugin.receive()) {
    for (const auto& [name, value] : request->environment.variables()) {
      check_variable(name);
    }
    require(request->hook.size() <= bytes.size(), "no more is kept than came");
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace

// Slurm's functions, as far as the plugin calls them.
extern "C" {
spank_context_t spank_context() { return g_of_srun ? S_CTX_LOCAL : S_CTX_REMOTE; }
const char* spank_strerror(spank_err_t) { return "refused"; }
spank_err_t spank_setenv(spank_t, const char* name, const char* value, int) {
  check_variable(name);
  return static_cast<spank_err_t>(value[0] == '!' ? ESPANK_NOSPACE : ESPANK_SUCCESS);
}
spank_err_t spank_unsetenv(spank_t, const char*) { return spank_err_t{}; }
void slurm_spank_log(const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  check_line(format, values);
  va_end(values);
}
void slurm_error(const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  check_line(format, values);
  va_end(values);
}
// libc's, in srun: the environment here is libFuzzer's.
int setenv(const char* name, const char* value, int) noexcept {
  check_variable(name);
  return value[0] == '!' ? -1 : 0;
}
int unsetenv(const char*) noexcept { return 0; }
}

namespace rollcall::spank {

Failure start_program(const char*, int, bool, Program& program) {
  const std::array<int, 2> ends = socket_with(g_answer);
  program = {.pid = std::numeric_limits<pid_t>::max(), .socket = ends[0]};
  g_program = ends[1];
  return {};
}

void stop_program(Program& program) {
  ::close(program.socket);
  ::close(g_program);
  program = {};
}

int status_of_end(Program& program) {
  stop_program(program);
  return 0;
}

bool append_layout(const char* question, Buffer& answer) {
  drain();
  answer.append("jwb[0001-0002] 0 ");
  answer.append(static_cast<std::uint32_t>(std::strlen(question)));
  return answer.ok();
}

bool append_node_address(const char* node, Buffer& answer) {
  drain();
  answer.append(node);
  return answer.ok() && node[0] != '!';
}

}  // namespace rollcall::spank

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty()) {
    g_of_srun = bytes[0] % 2 != 0;
    check_answer(bytes.substr(1));
    check_request(bytes.substr(1));
  }
  return 0;
}
