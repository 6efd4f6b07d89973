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

/// The submitting side: what srun, sbatch and salloc do about --ddp, at three of their hooks. One for all hooks of such
/// a process, which is this one's parent.
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

  void announce_end_with_first_failure(const Request& request);
  void say_if_end_with_first_failure_is_missing(const Request& request, const std::string& option);
  void make_a_missing_node_half_an_error(const Environment& environment);
  void drop_values_of_another_job(const Environment& environment);
  void warn_of_binding_of_another_step(const Environment& environment);
  void say_whether_nodes_want_an_address(const Request& request);

  void announce_task_prolog(const std::string& program, const Environment& environment);
  [[nodiscard]] Result<void> hand_to_task_prolog(const std::string& program, const Request& request);
  void say_what_a_batch_script_needs(const Environment& environment);

  /// True for the first call with `what`: Slurm tells of one --ddp up to three times.
  [[nodiscard]] bool first(const std::string& what) { return done_.insert_or_assign(what, true).second; }

  PluginLink& plugin_;
  const std::vector<std::string> command_line_;
  std::map<std::string, bool> done_;
  std::map<std::string, Result<settings::LaunchSettings>> loaded_;  ///< by what --ddp was given
  bool ends_with_first_failure_ = false;
};

}  // namespace rollcall::hooks
