#include "trainer/train/process.h"

#include <csignal>

#include <ATen/Parallel.h>

#include "trainer/model/amx.h"
#include "trainer/train/tensor_memory.h"

namespace rollcall::train {

void prepare_process(int threads) {
  model::avoid_unusable_amx();
  std::signal(SIGPIPE, SIG_IGN);
  keep_tensor_memory();
  if (threads > 0) {
    at::set_num_threads(threads);
  }
}

}  // namespace rollcall::train
