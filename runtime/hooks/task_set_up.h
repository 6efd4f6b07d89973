#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/base/time_limit.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::hooks {

/// Computes the environment of a task before its program starts, for the plugin on the node and for the task prolog.
/// After an error, the facts that were found so far show which nodes have it.
class TaskSetUp {
 public:
  TaskSetUp(Environment task, TimeLimit& limit) : task_(std::move(task)), limit_(limit) {}
  virtual ~TaskSetUp() = default;
  TaskSetUp(const TaskSetUp&) = delete;
  TaskSetUp& operator=(const TaskSetUp&) = delete;

  /// Reads the settings, gathers the facts, resolves, and creates the folders of caches. A cache whose folder cannot be
  /// created is not set. Errors: those of the steps, and Unavailable where the node of rank 0 is unknown.
  [[nodiscard]] Result<resolve::EnvPatch> run(const settings::LaunchLayers& layers);

  [[nodiscard]] const Environment& task() const { return task_; }
  [[nodiscard]] const std::optional<settings::LaunchSettings>& settings() const { return settings_; }
  [[nodiscard]] const std::optional<job::JobFacts>& facts() const { return facts_; }
  [[nodiscard]] const std::optional<network::NetworkView>& network() const { return network_; }

 protected:
  [[nodiscard]] virtual Result<job::JobFacts> find_facts(const settings::LaunchSettings& settings) = 0;
  [[nodiscard]] virtual network::ResolvedName ask_for(const std::string& name) { return network::resolve_name(name); }
  /// Returns the error to report where the node of rank 0 is unknown.
  [[nodiscard]] virtual Error head_unknown(Error error) { return error; }

  [[nodiscard]] network::ResolvedName look_up(const std::string& name);
  TimeLimit& limit() { return limit_; }

 private:
  Environment task_;  ///< the task's environment without the variables of other jobs and steps
  TimeLimit& limit_;
  std::optional<settings::LaunchSettings> settings_;
  std::optional<job::JobFacts> facts_;
  std::optional<network::NetworkView> network_;
};

}  // namespace rollcall::hooks
