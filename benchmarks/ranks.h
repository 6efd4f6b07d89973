#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"
#include "trainer/train/job_context.h"
#include "trainer/train/process.h"

/// What the programs of the benchmarks share. Their ranks are started by a script, with RANK and WORLD_SIZE set.
namespace rollcall::benchmarks {

using Options = std::map<std::string, int>;

/// "--name=7" over `options`, which names all of them.
inline Options parse(int argc, char** argv, Options options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    options.at(argument.substr(2, equals - 2)) = std::stoi(argument.substr(equals + 1));
  }
  return options;
}

/// Meets the other ranks as the trainer does with --backend=`backend`, and sets this process up as it does.
inline Result<train::JobContext> join(train::FailureReport& report, int threads, const std::string& backend) {
  train::prepare_process(threads);
  const Environment environment = Environment::of_this_process();
  const settings::Settings launch(settings::launch_table());
  const Result<step::ResolvedStep> step = step::resolve_this_step(environment, launch, nullptr);
  if (!step) {
    return step.error();
  }
  metrics::StartupTrace trace(metrics::now());
  return train::join_world(*step, resolve::apply(step->patch, environment), launch, {.backend = backend}, nullptr,
                           report, trace);
}

inline double seconds_of(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace rollcall::benchmarks
