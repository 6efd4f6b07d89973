// Any variables, one NAME=VALUE a line, as the environment that a task finds: Slurm's, PMIx's, torchrun's, the user's.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/cli/env_command.h"
#include "runtime/cli/program.h"
#include "runtime/contract/env_table.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"
#include "runtime/step/gather.h"
#include "tests/fuzz/require.h"

namespace {

using namespace rollcall;
using fuzz::require;

Environment environment_of(std::string_view text) {
  Environment environment;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos && equals > 0) {
      environment.set(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return environment;
}

network::NetworkView made_up_network() {
  network::NetworkView view;
  view.host_name = "jwb0001";
  view.interfaces = {{"lo", true, true, {}}, {"ib0", true, false, {}}};
  view.head_names = {{"jwb0001i", {{"10.78.0.1", true, false, false}}, ""}};
  view.route_interface = "ib0";
  view.ephemeral_ports = {.range = {32768, 60999}};
  return view;
}

void check_facts(const job::JobFacts& facts) {
  require(facts.rank < facts.world_size, "a rank is in its world");
  require(facts.local_rank < facts.local_world_size, "a local rank is in its node's world");
  require(facts.local_world_size <= facts.world_size, "a node has no more tasks than the world");
  require(facts.node_rank < facts.num_nodes, "a node rank is in the step");
  require(facts.hosts.empty() || facts.hosts.size() == facts.num_nodes, "each node has a name");
}

/// Whether rollcall may set `name`: it is in the contract, or named by the setting `variables`.
bool may_be_set(const std::string& name, const settings::Settings& values) {
  const auto names_it = [&](const std::string& entry) { return entry.starts_with(name + "="); };
  return env::find_variable(name) != nullptr || std::ranges::any_of(values.list("variables"), names_it);
}

/// The lines that Slurm's root-owned step daemon reads from a task prolog say what the patch says, and nothing else.
void check_prolog_lines(const resolve::EnvPatch& patch, const Environment& user) {
  std::vector<std::string> warnings;
  Environment told = user;
  cli::apply_task_prolog_lines(cli::task_prolog_lines(patch, warnings), told);
  require(warnings.empty(), "no value has a line feed here");
  require(told.variables() == resolve::apply(patch, user).variables(), "a prolog's lines are the patch");
}

/// The user's own values survive, whatever else is in the environment.
void check_patch(const resolve::EnvPatch& patch, const settings::Settings& values, const Environment& user) {
  const Environment after = resolve::apply(patch, user);
  check_prolog_lines(patch, user);
  for (const resolve::EnvChange& change : patch.changes) {
    if (change.action == resolve::Action::Keep) {
      require(after.get(change.name) == user.get(change.name), "a kept value is the user's");
    }
    require(change.action == resolve::Action::Unset || !change.reason.empty(), "a change says why");
    require(change.action != resolve::Action::Set || may_be_set(change.name, values), "no other variable is set");
    require(change.action != resolve::Action::Unset || user.get(change.name), "what is removed was there");
  }
  require(!cli::env_table(patch).empty(), "the table can be printed");
  const std::string exports = cli::env_exports(patch);
  require(exports.empty() || exports.back() == '\n', "lines for a shell end");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Environment user = environment_of({reinterpret_cast<const char*>(data), size});
  const Result<step::Gathered> gathered = step::gather(user, nullptr);
  if (!gathered) {
    require(!gathered.error().message().empty(), "an error says why");
    return 0;
  }
  check_facts(gathered->facts);
  settings::Settings values(settings::launch_table());
  const Result<void> applied = settings::apply_environment(values, user);
  const Result<resolve::EnvPatch> patch = resolve::resolve(gathered->facts, values, made_up_network(), user, 4);
  if (patch) {
    check_patch(*patch, values, user);
  } else {
    require(!patch.error().message().empty(), "an error says why");
  }
  require(applied || !applied.error().message().empty(), "an error says why");
  return 0;
}
