#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall::hooks {

/// What a hook of the SPANK plugin wants done (contract/hook_wire.h).
struct Request {
  std::string hook;
  Environment environment;  ///< of srun, or what the task will have
  std::map<std::string, std::string, std::less<>> items;

  [[nodiscard]] std::optional<std::string> item(std::string_view name) const;
};

/// The plugin at the other end of a socket. Where it is gone so is the process that this program works for: everything
/// that is said ends this program then. What is said is kept until somebody waits for it: each word would wake the
/// plugin. Not copied, not thread-safe.
class PluginLink {
 public:
  explicit PluginLink(int socket) : socket_(socket) {}
  PluginLink(const PluginLink&) = delete;
  PluginLink& operator=(const PluginLink&) = delete;

  /// The next request; nothing where there is none any more.
  [[nodiscard]] std::optional<Request> receive();

  void set(std::string_view name, std::string_view value);
  void unset(std::string_view name);
  void note(std::string_view line);
  void tell(const Error& error);
  /// How long this answer may take in all, in seconds.
  void set_patience(double seconds);
  /// What slurmctld says; "" where it does not answer.
  [[nodiscard]] std::string ask(char kind, std::string_view question);
  /// Ends the answer; 0: the process goes on, else it ends with this code.
  void end(ExitCode code);

  void say(char kind, std::string_view payload);
  /// Sends what was said.
  void flush();

 private:
  struct Frame {
    char kind = 0;
    std::string payload;
  };
  [[nodiscard]] std::optional<Frame> receive_frame();
  /// The next `size` bytes; nothing where they do not come any more.
  [[nodiscard]] std::optional<std::string_view> receive_bytes(std::size_t size);

  int socket_;
  std::string received_;
  std::size_t taken_ = 0;  ///< of `received_`
  std::string unsent_;
};

}  // namespace rollcall::hooks
