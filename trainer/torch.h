#pragma once

// LibTorch for all parts of the trainer: tensors, autograd, and the modules and optimizers that the trainer uses. All
// of <torch/torch.h> would take 50 % longer to compile, once in this precompiled header and again in each file's
// templates.
#include <ATen/ATen.h>
#include <torch/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>
