#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <string>

namespace rollcall::parallel::fsdp {

// The memory of a module's own parameter, which comes and goes while the tensor object stays. What autograd saved of
// it (also views, as linear layers do) refers to the same memory, so it is right again once the memory is back with
// the same values.

/// Frees the memory, or drops the parameter's reference to it. Until lend(), whoever reads or writes the tensor gets a
/// c10::Error that names the parameter and says what to do: a copy, an optimizer or a checkpoint can neither crash nor
/// see an empty tensor.
void release(const at::Tensor& parameter, const std::string& name);

/// Lets `parameter` live in `memory`, bytes of its device, from byte `begin` on until release(), with the values that
/// are or will be there. Whoever writes them through `memory` leaves the parameter's version alone, by which autograd
/// would notice a change.
void lend(const at::Tensor& parameter, const at::Tensor& memory, std::int64_t begin);

}  // namespace rollcall::parallel::fsdp
