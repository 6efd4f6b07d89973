#pragma once

// Precompiled once for every part of the trainer that uses LibTorch: including it afresh costs 16 s a file, so 7 s.
#include <torch/torch.h>
