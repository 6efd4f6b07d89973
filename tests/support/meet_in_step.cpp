// A rank that meets the others of its step as a program of rollcall's does, writes down which world it met, and ends:
// what tests/spank_plugin/soak.py runs by the thousand. usage: meet_in_step FOLDER
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/contract/env_vars.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace {

using namespace rollcall;

struct Met {
  step::ResolvedStep step;
  rendezvous::Meeting meeting;
};

Result<Met> meet(const Environment& environment) {
  const Result<settings::Settings> settings = settings::load_launch_settings(environment);
  if (!settings) {
    return settings.error();
  }
  Result<std::unique_ptr<launchers::PmixClient>> pmix = rendezvous::pmix_for(environment, *settings);
  if (!pmix) {
    return pmix.error();
  }
  Result<step::ResolvedStep> step = step::resolve_this_step(environment, *settings, pmix->get());
  if (!step) {
    return step.error();
  }
  const Environment patched = resolve::apply(step->patch, environment);
  Result<rendezvous::Meeting> meeting = rendezvous::meet(step->facts, patched, *settings, pmix->get());
  if (!meeting) {
    return meeting.error();
  }
  return Met{*std::move(step), *std::move(meeting)};
}

/// One line in a file of its own: rank, size, name and nonce of the world, how it met, and where.
bool write_down(const std::string& folder, const Met& met) {
  const std::string name = folder + "/" + std::to_string(met.step.facts.rank) + "." + std::to_string(::getpid());
  std::ofstream file(name + ".part");
  file << met.step.facts.rank << ' ' << met.step.facts.world_size << ' ' << met.meeting.key.name << ' '
       << met.meeting.key.nonce << ' ' << met.meeting.method << ' ' << to_text(met.meeting.endpoint) << '\n';
  file.close();
  return file && std::rename((name + ".part").c_str(), (name + ".met").c_str()) == 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    std::cerr << "usage: meet_in_step FOLDER\n";
    return to_int(ExitCode::Usage);
  }
  const Environment environment = Environment::of_this_process();
  const Result<Met> met = meet(environment);
  if (!met) {
    std::cerr << met.error().message() << std::endl;
    return to_int(met.error().exit_code());
  }
  return to_int(write_down(arguments[1], *met) ? ExitCode::Success : ExitCode::InputOutput);
}
