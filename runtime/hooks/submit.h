#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/hooks/plugin_link.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::hooks {

/// The work of srun, sbatch and salloc for --ddp, at three of their hooks. One object serves all hooks of such a
/// process, which is the parent of this one.
class Submit {
 public:
  explicit Submit(PluginLink& plugin);

  /// Carries out "init", "option" or "post_opt". Error: srun, sbatch or salloc ends with it before anything starts.
  [[nodiscard]] Result<void> serve(const Request& request);

 private:
  [[nodiscard]] Result<void> take_option(const Request& request);
  [[nodiscard]] Result<void> check(const Request& request, const std::string& option, bool in_srun);
  [[nodiscard]] const Result<settings::LaunchSettings>& settings_here(const Request& request,
                                                                      const std::string& option);
  [[nodiscard]] std::optional<std::string> option_of_this_srun(const Environment& environment) const;

  void set_kill_on_bad_exit(const Request& request);
  void note_missing_kill_on_bad_exit(const Request& request, const std::string& option);
  void set_placeholders(const Environment& environment);
  void drop_other_jobs_variables(const Environment& environment);
  void warn_about_inherited_binding(const Environment& environment);
  void request_head_address(const Request& request);

  void set_task_prolog(const std::string& program, const Environment& environment);
  [[nodiscard]] Result<void> pass_to_task_prolog(const std::string& program, const Request& request);
  void note_batch_script_needs(const Environment& environment);

  /// Returns true for the first call with `what`: Slurm calls the option's hook up to three times.
  [[nodiscard]] bool first(const std::string& what) { return done_.insert_or_assign(what, true).second; }

  PluginLink& plugin_;
  const std::vector<std::string> command_line_;
  std::map<std::string, bool> done_;
  std::map<std::string, Result<settings::LaunchSettings>> loaded_;  ///< by the argument of --ddp
  bool ends_with_first_failure_ = false;
};

}  // namespace rollcall::hooks
