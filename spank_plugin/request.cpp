#include "spank_plugin/request.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/contract/hook_wire.h"
#include "spank_plugin/layout.h"
#include "spank_plugin/program.h"

namespace rollcall::spank {
namespace {

/// The default time limit in milliseconds, which the program may change. Its own limit, the setting task.timeout (30
/// s), is shorter, so that the program reports first.
constexpr long kPatience = 40'000;
constexpr long kMostPatience = 1'000'000;  // seconds

/// The minimum size that a frame counts of hook::kLongestAnswer, so that an answer has at most some ten thousand
/// frames.
constexpr std::size_t kFrame = 1024;
/// The limit for all lines of one answer, where each counts at least kFrame. They go to slurmd's log, which is root's,
/// and a user can replace the program by another one.
constexpr std::size_t kMostReported = std::size_t{64} << 10;

char g_path[PATH_MAX];
Program g_program;

/// One answer while it is read.
class Answer {
 public:
  explicit Answer(spank_t spank) : spank_(spank), remote_(spank_context() == S_CTX_REMOTE) {}

  /// Sends the request and reads the answer. A program of another version may answer before it has read the request.
  [[nodiscard]] Failure to(std::string_view request) {
    const Io sent = send_all(g_program.socket, request.data(), request.size(), deadline_);
    return sent == Io::Late ? failure_of(sent) : read();
  }

 private:
  /// Reads all frames of the answer.
  [[nodiscard]] Failure read() {
    for (std::size_t size = 0; size < hook::kLongestAnswer; size += frame_.text().size() + kFrame) {
      hook::Header header{};
      if (const Failure failure = receive(reinterpret_cast<char*>(&header), sizeof header); failure) {
        return failure;
      }
      if (header.size > hook::kLongestFrame) {
        break;
      }
      char* const payload = frame_.make_room(header.size);
      if (payload == nullptr) {
        return failed(ExitCode::Unavailable, "rollcall: --ddp: out of memory; try asking Slurm for more (--mem)");
      }
      if (const Failure failure = receive(payload, header.size); failure) {
        return failure;
      }
      // A frame must not have a NUL.
      if (std::memchr(payload, '\0', header.size) != nullptr || (!version_known_ && header.kind != hook::kVersion)) {
        break;
      }
      if (header.kind == hook::kEnd) {
        return end(payload);
      }
      if (const Failure failure = take(header.kind, payload); failure) {
        return failure;
      }
    }
    return garbage();
  }

  [[nodiscard]] Failure take(char kind, char* payload) {
    switch (kind) {
      case hook::kVersion:
        version_known_ = true;
        return std::string_view(payload).ends_with(hook::protocol()) ? Failure() : other_version(payload);
      case hook::kSet:
        return set(payload);
      case hook::kUnset:
        return refused(payload, remote_ ? spank_unsetenv(spank_, payload) : local(::unsetenv(payload)));
      case hook::kNote:
      case hook::kError:
        return report(kind, payload);
      case hook::kPatience:
        deadline_ = begin_ + std::clamp(std::strtol(payload, nullptr, 10), 0L, kMostPatience) * 1000;
        return {};
      case hook::kAskLayout:
        return reply(append_layout(payload, reply_));
      case hook::kAskAddress:
        return reply(append_node_address(payload, reply_));
      default:
        return garbage();
    }
  }

  [[nodiscard]] Failure report(char kind, char* line) {
    if (reported_ >= kMostReported) {
      return garbage();
    }
    const std::size_t size = std::min(std::strlen(line), kMostReported - reported_);
    reported_ += std::max(size, kFrame);
    line[size] = '\0';
    make_printable(line);
    kind == hook::kNote ? slurm_spank_log("%s", line) : slurm_error("%s", line);
    return {};
  }

  [[nodiscard]] Failure set(char* entry) {
    char* const equals = std::strchr(entry, '=');
    if (equals == nullptr || equals == entry) {
      return garbage();
    }
    *equals = '\0';
    const char* const value = equals + 1;
    return refused(entry, remote_ ? spank_setenv(spank_, entry, value, 1) : local(::setenv(entry, value, 1)));
  }

  static int local(int status) { return status == 0 ? ESPANK_SUCCESS : ESPANK_ERROR; }

  static Failure refused(const char* name, int status) {
    return status == ESPANK_SUCCESS
               ? Failure()
               : failed(ExitCode::Internal,
                        "rollcall: %s: Slurm refused to set it: %s; try reporting it to your administrator", name,
                        spank_strerror(static_cast<spank_err_t>(status)));
  }

  [[nodiscard]] Failure reply(bool known) {
    Buffer frame;
    frame.frame(hook::kReply, known ? reply_.text() : std::string_view());
    reply_.clear();
    return failure_of(send_all(g_program.socket, frame.text().data(), frame.text().size(), deadline_));
  }

  [[nodiscard]] Failure end(const char* code) const {
    Failure failure;
    char* rest = nullptr;
    const long number = std::strtol(code, &rest, 10);
    if (rest == code || *rest != '\0' || number < 0 || number > 255) {
      return garbage();
    }
    failure.exit_code = static_cast<int>(number);
    return failure;
  }

  [[nodiscard]] Failure receive(char* data, std::size_t size) {
    return failure_of(receive_all(g_program.socket, data, size, deadline_));
  }

  [[nodiscard]] Failure failure_of(Io io) const {
    switch (io) {
      case Io::Done:
        return {};
      case Io::Late:
        return failed(
            ExitCode::Unavailable,
            "rollcall: --ddp: %s: did not answer within %ld s and was killed; try checking the file servers and name "
            "servers that it uses",
            g_path, (deadline_ - begin_) / 1000);
      default:
        break;
    }
    const int status = status_of_end(g_program);
    if (!version_known_) {
      return failed(ExitCode::Mismatch,
                    "rollcall: --ddp: %s: does not answer like rollcall " ROLLCALL_VERSION
                    " and ended with %d; try installing one version of the plugin and the program",
                    g_path, status);
    }
    return failed(ExitCode::Internal, "rollcall: --ddp: %s: ended early with exit code %d; try reporting it", g_path,
                  status);
  }

  [[nodiscard]] static Failure other_version(char* version) {
    make_printable(version);
    return failed(ExitCode::Mismatch,
                  "rollcall: --ddp: %s: is of version %.32s, but the plugin is of " ROLLCALL_VERSION
                  " %s; try installing one version of both",
                  g_path, version, hook::protocol());
  }

  [[nodiscard]] static Failure garbage() {
    return failed(ExitCode::Mismatch,
                  "rollcall: --ddp: %s: does not answer like rollcall " ROLLCALL_VERSION
                  "; try installing one version of the plugin and the program",
                  g_path);
  }

  spank_t spank_;
  bool remote_;
  bool version_known_ = false;
  std::size_t reported_ = 0;  ///< size of the printed lines
  long begin_ = now();
  long deadline_ = begin_ + kPatience;
  Buffer frame_;
  Buffer reply_;
};

}  // namespace

Request::Request(spank_t spank, const Site& site, int shared) : spank_(spank), site_(site), shared_(shared) {
  if (shared >= 0) {
    item("shared", "yes");
  }
  item("plugin", OwnFile().path);
  if (site.config != nullptr) {
    item("config", site.config);
  }
  if (site.config_owner != nullptr) {
    item("config_owner", site.config_owner);
  }
  if (site.task_prolog != nullptr) {
    item("task_prolog", site.task_prolog);
  }
}

void Request::variable(std::string_view entry) { text_.frame(hook::kVariable, entry); }

void Request::item(std::string_view name, std::string_view value) {
  Buffer entry;
  entry.append(name);
  entry.append("=");
  entry.append(value);
  text_.frame(hook::kItem, entry.text());
}

void Request::item(std::string_view name, std::uint32_t value) {
  Buffer number;
  number.append(value);
  item(name, number.text());
}

Failure Request::ask(std::string_view hook) {
  text_.frame(hook::kHook, hook);
  if (!text_.ok()) {
    return failed(ExitCode::Unavailable, "rollcall: --ddp: out of memory; try asking Slurm for more (--mem)");
  }
  if (!g_program.runs()) {
    Failure failure = find_program(site_, g_path);
    if (!failure) {
      failure = start_program(g_path, shared_, spank_context() == S_CTX_REMOTE, g_program);
    }
    if (failure) {
      return failure;
    }
  }
  const Failure failure = Answer(spank_).to(text_.text());
  if (failure) {
    end_program();
  }
  return failure;
}

bool program_runs() { return g_program.runs(); }

void end_program() { stop_program(g_program); }

void kill_program() {
  if (g_program.runs()) {
    ::kill(g_program.pid, SIGKILL);
  }
}

}  // namespace rollcall::spank
