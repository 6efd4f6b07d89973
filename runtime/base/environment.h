#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rollcall {

/// A snapshot of environment variables, taken once and then passed around: nothing below the shells calls getenv.
/// Ordered by name, so that printing it is deterministic. Plain value: copy freely.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables) : variables_(std::move(variables)) {}

  /// This process's own environment (environ(7)). Entries without '=' are ignored.
  static Environment of_this_process();
  /// From a null-terminated "NAME=value" array, as S_JOB_ENV and execve use. `entries` may be null (SPANK does that).
  static Environment from_entries(const char* const* entries);

  /// The value, or nothing where the variable is unset. An empty value counts as set.
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
  /// The value, or nothing where the variable is unset **or empty**: what Slurm's and torch's variables mean by it.
  [[nodiscard]] std::optional<std::string> get_non_empty(std::string_view name) const;
  void set(std::string name, std::string value);
  void unset(std::string_view name);

  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& variables() const { return variables_; }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

/// `environment` with HOME and USER of this process's user where it lacks them: srun's and sbatch's --export=NONE, and
/// each list of names, keep them from the tasks. Asks getpwuid(3), which may wait for a name server, only then.
[[nodiscard]] Environment with_home_and_user(Environment environment);

}  // namespace rollcall
