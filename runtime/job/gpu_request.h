#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace rollcall::job {

/// Returns the options of Slurm with which every task may open all GPUs of its node, as NCCL needs: "--gpus-per-node=4
/// without --gpus-per-task and --gpu-bind". `gpus` is the number per node. It avoids --gpu-bind=none, with which Slurm
/// 22.05 sets no variables about GPUs. Pure.
[[nodiscard]] inline std::string gpus_for_every_task(std::size_t gpus) {
  return fmt::format("--gpus-per-node={} without --gpus-per-task and --gpu-bind", gpus);
}

}  // namespace rollcall::job
