#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rollcall {

/// A snapshot of environment variables. A program takes it once and passes it on; its functions do not call getenv().
/// The variables are ordered by name, so that printing them is deterministic. A plain value.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables) : variables_(std::move(variables)) {}

  /// Returns this process's environment (environ(7)). Entries without '=' are ignored.
  static Environment of_this_process();
  /// Parses a null-terminated array of "NAME=value" entries, as SPANK and execve(2) use it. `entries` may be null, as
  /// SPANK's S_JOB_ENV may be.
  static Environment from_entries(const char* const* entries);

  /// Returns the value, or nothing where the variable is unset. An empty value counts as set.
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
  /// Returns the value, or nothing where the variable is unset **or empty**, which Slurm and PyTorch treat alike.
  [[nodiscard]] std::optional<std::string> get_non_empty(std::string_view name) const;
  void set(std::string name, std::string value);
  void unset(std::string_view name);

  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& variables() const { return variables_; }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

/// Returns `environment` with HOME and USER of this process's user added where they are missing: tasks do not get them
/// under --export=NONE or --export=NAMES. Only then it calls getpwuid(3), which may wait for a name server.
[[nodiscard]] Environment with_home_and_user(Environment environment);

}  // namespace rollcall
