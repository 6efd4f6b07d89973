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

/// A request of a hook of the SPANK plugin (contract/hook_wire.h).
struct Request {
  std::string hook;
  Environment environment;                                ///< srun's, or the one that the task will have
  std::map<std::string, std::string, std::less<>> items;  ///< data from SPANK and plugstack.conf by name

  /// Returns the value of an item, or nothing where the request does not have it.
  [[nodiscard]] std::optional<std::string> item(std::string_view name) const;
};

/// The connection to the plugin, over a socket. Sending ends this program where the plugin's process has ended. Frames
/// are collected and sent together, because each one would wake the plugin. Not thread-safe.
class PluginLink {
 public:
  explicit PluginLink(int socket) : socket_(socket) {}
  PluginLink(const PluginLink&) = delete;
  PluginLink& operator=(const PluginLink&) = delete;

  /// Waits for the next request. Nothing after the last one.
  [[nodiscard]] std::optional<Request> receive();

  void set(std::string_view name, std::string_view value);
  void unset(std::string_view name);
  void note(std::string_view line);
  void report(const Error& error);
  /// Sets the time limit of this answer, in seconds from its begin.
  void set_patience(double seconds);
  /// Asks slurmctld through the plugin. Returns "" where it does not answer.
  [[nodiscard]] std::string ask(char kind, std::string_view question);
  /// Ends the answer. The plugin's process continues with code 0, and ends with any other code.
  void end(ExitCode code);

  /// Adds a frame to the answer.
  void say(char kind, std::string_view payload);
  /// Sends the collected frames.
  void flush();

 private:
  struct Frame {
    char kind = 0;
    std::string payload;
  };
  [[nodiscard]] std::optional<Frame> receive_frame();
  /// Receives `size` bytes. Nothing where the connection ends before.
  [[nodiscard]] std::optional<std::string_view> receive_bytes(std::size_t size);

  int socket_;
  std::string received_;
  std::size_t taken_ = 0;  ///< bytes of `received_` that were returned
  std::string unsent_;
};

}  // namespace rollcall::hooks
