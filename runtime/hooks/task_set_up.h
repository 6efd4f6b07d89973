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

/// One task on its way to its environment, before its program starts: what the plugin's node half and the task prolog
/// do alike. What it found out so far tells whose an error is.
class TaskSetUp {
 public:
  TaskSetUp(Environment task, TimeLimit& limit) : task_(std::move(task)), limit_(limit) {}
  virtual ~TaskSetUp() = default;
  TaskSetUp(const TaskSetUp&) = delete;
  TaskSetUp& operator=(const TaskSetUp&) = delete;

  /// Reads the settings, asks for the facts, resolves, makes the caches' folders. A cache that cannot be made is left
  /// alone. Errors: those of each, and Unavailable where the task would not know where rank 0 is.
  [[nodiscard]] Result<resolve::EnvPatch> run(const settings::LaunchLayers& layers);

  [[nodiscard]] const Environment& task() const { return task_; }
  [[nodiscard]] const std::optional<settings::LaunchSettings>& settings() const { return settings_; }
  [[nodiscard]] const std::optional<job::JobFacts>& facts() const { return facts_; }
  [[nodiscard]] const std::optional<network::NetworkView>& network() const { return network_; }

 protected:
  [[nodiscard]] virtual Result<job::JobFacts> find_facts(const settings::LaunchSettings& settings) = 0;
  [[nodiscard]] virtual network::ResolvedName ask_for(const std::string& name) { return network::resolve_name(name); }
  /// Where nothing says where rank 0 is.
  [[nodiscard]] virtual Error without_head(Error error) { return error; }

  [[nodiscard]] network::ResolvedName look_up(const std::string& name);
  TimeLimit& limit() { return limit_; }

 private:
  Environment task_;  ///< as rollcall sees it
  TimeLimit& limit_;
  std::optional<settings::LaunchSettings> settings_;
  std::optional<job::JobFacts> facts_;
  std::optional<network::NetworkView> network_;
};

}  // namespace rollcall::hooks
