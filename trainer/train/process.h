#pragma once

namespace rollcall::train {

/// Settings of this process that must be made before the first tensor:
/// - memory of tensors is kept (keep_tensor_memory()): activations are allocated and freed every step, and fresh pages
///   from mmap cost 1-7 % of a step on CPUs;
/// - `threads` compute threads; 0 leaves LibTorch's choice. OMP_NUM_THREADS set by us now would come too late: the
///   OpenMP run time read it when it was loaded;
/// - writing to a peer that died is an error that is told, not the end by SIGPIPE (Gloo writes without MSG_NOSIGNAL);
/// - no AMX where it would end the process (model::avoid_unusable_amx).
void prepare_process(int threads);

}  // namespace rollcall::train
