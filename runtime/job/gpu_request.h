#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace rollcall::job {

/// What is to be asked of Slurm so that every task may open all GPUs of its node, as NCCL wants: "--gpus-per-node=4
/// without --gpus-per-task and --gpu-bind". `gpus`: of a node. Not --gpu-bind=none: Slurm 22.05 then says nothing of
/// GPUs in a task's environment. Pure.
[[nodiscard]] inline std::string gpus_for_every_task(std::size_t gpus) {
  return fmt::format("--gpus-per-node={} without --gpus-per-task and --gpu-bind", gpus);
}

}  // namespace rollcall::job
