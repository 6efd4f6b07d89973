#include "runtime/hooks/serve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>

#include <optional>
#include <string>

#include "runtime/contract/hook_wire.h"
#include "runtime/hooks/node_task.h"
#include "runtime/hooks/plugin_link.h"
#include "runtime/hooks/submit.h"
#include "runtime/network/shared_look_ups.h"

namespace rollcall::hooks {
namespace {

/// Protects the socket, whose messages go to slurmd's log: other processes of the user cannot take it over (ptrace(2),
/// pidfd_getfd(2)), and child processes do not inherit it.
void protect_socket() {
  ::prctl(PR_SET_DUMPABLE, 0);
  for (const int descriptor : {hook::kSocket, hook::kShared}) {
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
}

/// An error of the submitting side ends srun, sbatch or salloc.
ExitCode serve_submit(PluginLink& plugin, Submit& submit, const Request& request) {
  const Result<void> done = submit.serve(request);
  if (!done) {
    plugin.report(done.error());
  }
  return done ? ExitCode::Success : done.error().exit_code();
}

}  // namespace

int serve_plugin(std::string_view version) {
  protect_socket();
  PluginLink plugin(hook::kSocket);
  const std::string own = fmt::format("{} {}", ROLLCALL_VERSION, hook::protocol());
  if (!version.ends_with(hook::protocol())) {
    plugin.say(hook::kVersion, own);  // the plugin reports the error
    plugin.flush();
    return to_int(ExitCode::Mismatch);
  }
  Submit submit(plugin);
  std::optional<network::SharedLookUps> shared;
  while (const std::optional<Request> request = plugin.receive()) {
    plugin.say(hook::kVersion, own);
    if (!shared && request->item("shared")) {
      shared = network::SharedLookUps::open(hook::kShared);
    }
    plugin.end(request->hook == "task" ? serve_task(plugin, *request, shared) : serve_submit(plugin, submit, *request));
  }
  return to_int(ExitCode::Success);
}

}  // namespace rollcall::hooks
