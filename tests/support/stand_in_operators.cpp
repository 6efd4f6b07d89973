// The stand-in device's operators: the CPU's, on the memory behind its tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>
#include <array>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/stand_in_device.h"
#include "tests/support/stand_in_memory.h"
#include "tests/support/stand_in_streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

/// While an operator is computed: what it copies is the stand-in's own affair.
class Operator {
 public:
  Operator() { ++depth_; }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  ~Operator() { --depth_; }
  static bool under_way() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};
thread_local int Operator::depth_ = 0;

/// Whether LibTorch copies a GPU's tensor without another one of the host between (ATen/native/cuda/Copy.cu).
bool is_copied_as_it_is(const at::Tensor& of_host, const at::Tensor& of_device) {
  return of_host.scalar_type() == of_device.scalar_type() &&
         (of_host.is_contiguous() || of_host.strides() == of_device.strides());
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const torch::NoGradGuard no_grad;
  const auto guard = on_device_of({from, to});  // nothing is copied between devices
  const at::Tensor target = place_of(to);
  const at::Tensor source = place_of(from);
  const bool within = !from.is_cpu() && !to.is_cpu();
  if (Operator::under_way()) {
    finish_current();
    target.copy_(source);
    return to;
  }
  TORCH_CHECK(within || !is_captured(), "stand-in: memory of the host is copied by a stream that is captured");
  const auto pinned = within ? nullptr : pinned_block((from.is_cpu() ? source : target).const_data_ptr());
  const bool goes_on = from.is_cpu() ? is_copied_as_it_is(source, target) : is_copied_as_it_is(target, source);
  enqueue([target, source, pinned] { target.copy_(source); });
  if (within && from.scalar_type() != to.scalar_type()) {
    streams().count_cast();
  }
  if (!within && to.numel() > 0) {
    if (to.is_cpu()) {
      streams().count_copy_to_host();
    }
    if (from.strides() != to.strides() && !(from.is_contiguous() && to.is_contiguous())) {
      streams().count_reordered_copy();
    }
  }
  if (within || to.numel() == 0 || (non_blocking && pinned && goes_on)) {
    streams().count_copy();
  } else {
    host_waits();
    finish_current();
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) {
    const at::Tensor fresh = at::empty(from.sizes(), to.options());
    to.unsafeGetTensorImpl()->shallow_copy_from(fresh.getIntrusivePtr());
  }
  return copy_from(from, to, /*non_blocking=*/false);
}

/// New memory is of the current device: which this makes the one that is asked for while it lives.
c10::OptionalDeviceGuard on_device(std::optional<at::Device> asked) {
  return c10::OptionalDeviceGuard(asked && asked->has_index() ? asked : std::nullopt);
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> device, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  const auto guard = on_device(device);
  return at::detail::empty_generic(sizes, &memory(), kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                         std::optional<bool> /*pinned*/) {
  const auto guard = on_device(device);
  return at::detail::empty_strided_generic(sizes, strides, &memory(), kKeys, c10::dtype_or_default(type));
}

void check_is_here(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  TORCH_CHECK(!tensor.defined() || !tensor.is_cpu() || tensor.dim() == 0, op.schema().name(),
              ": Expected all tensors to be on the same device, one is on the CPU");
}

/// Whose outcome the host looks at, or makes a tensor of a size that only values tell.
bool host_waits_for(const c10::OperatorHandle& op) {
  static const std::set<std::string> kNames{
      "aten::_local_scalar_dense", "aten::equal",   "aten::nonzero", "aten::masked_select", "aten::_unique2",
      "aten::is_nonzero",          "aten::bincount"};
  return kNames.contains(op.schema().name());
}

using Tensors = std::vector<at::Tensor>;

/// `value` with the memory behind its tensors; numbers are kept as they are.
c10::IValue on_cpu(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() && !tensor.is_cpu() ? c10::IValue(place_of(tensor)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(place_of(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor && tensor->defined() ? std::optional(place_of(*tensor)) : tensor);
    }
    return list;
  }
  return value.isDevice() ? c10::IValue(c10::Device(at::kCPU)) : value;
}

Tensors tensors_in(const c10::IValue& value) {
  if (value.isTensor()) {
    return {value.toTensor()};
  }
  return value.isTensorList() ? value.toTensorVector() : Tensors();
}

/// What a device does to `to` when it comes to it.
void put(const Tensors& values, const Tensors& to) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (to[i].defined() && to[i].data_ptr() != values[i].data_ptr()) {
      to[i].copy_(values[i]);
    }
  }
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.clone());
  }
  return copies;
}

/// An operator that is done whenever the graph is replayed, on the memory of its tensors, whoever owns it by then. Now
/// it only gives its outcome memory, and takes back what it wrote elsewhere.
void capture_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  const auto given = torch::jit::last(*stack, declared.size());
  torch::jit::Stack arguments(given.begin(), given.end());
  Tensors written;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].alias_info() != nullptr && declared[i].alias_info()->isWrite()) {
      const Tensors these = tensors_in(on_cpu(arguments[i]));
      written.insert(written.end(), these.begin(), these.end());
    }
  }
  const Tensors before = copies_of(written);
  at::native::cpu_fallback(op, stack);
  put(before, written);
  for (c10::IValue& argument : arguments) {  // now, since one that is written may have been made larger
    argument = on_cpu(argument);
  }
  Tensors outcome;
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().returns().size())) {
    const Tensors these = tensors_in(on_cpu(value));
    outcome.insert(outcome.end(), these.begin(), these.end());
  }
  enqueue([op, arguments, outcome] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    torch::jit::Stack values = arguments;
    op.callBoxed(&values);
    Tensors computed;
    for (const c10::IValue& value : values) {
      const Tensors these = tensors_in(value);
      computed.insert(computed.end(), these.begin(), these.end());
    }
    put(computed, outcome);
  });
}

/// Every other operator: on copies of its tensors in main memory. As with a GPU, only numbers may come from there.
void compute_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Tensors given;
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    const Tensors these = tensors_in(argument);
    given.insert(given.end(), these.begin(), these.end());
  }
  for (const at::Tensor& tensor : given) {
    check_is_here(op, tensor);
  }
  const auto guard = on_device_of({given});
  if (host_waits_for(op)) {
    host_waits();
  }
  const Operator own;
  finish_current();
  if (is_captured()) {
    capture_operator(op, stack);
  } else {
    at::native::cpu_fallback(op, stack);
  }
}

using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor on_cpu(const MaybeTensor& tensor) {
  return tensor && tensor->defined() ? MaybeTensor(place_of(*tensor)) : std::nullopt;
}

/// On the current device what `compute` returns, tensors of the CPU; it writes into `written` beside.
template <typename Compute>
Tensors computed(const Compute& compute, const Tensors& written = {}) {
  const Operator own;
  finish_current();
  const bool captured = is_captured();
  const Tensors before = captured ? copies_of(written) : Tensors();
  Tensors there;
  Tensors behind;
  for (const at::Tensor& tensor : compute()) {
    there.push_back(tensor.defined() ? tensor.to(device()) : tensor);
    behind.push_back(tensor.defined() ? place_of(there.back()) : tensor);
  }
  if (captured) {
    put(before, written);
    enqueue([compute, behind] {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      put(compute(), behind);
    });
  }
  return there;
}

/// Its schema does not say that it changes the running statistics, so that the fallback would change copies of them.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input, const MaybeTensor& weight,
                                                          const MaybeTensor& bias, const MaybeTensor& running_mean,
                                                          const MaybeTensor& running_var, bool training,
                                                          double momentum, double eps) {
  const auto guard = on_device_of({input, weight.value_or(at::Tensor()), running_mean.value_or(at::Tensor())});
  const MaybeTensor mean = on_cpu(running_mean);
  const MaybeTensor variance = on_cpu(running_var);
  const Tensors made = computed(
      [=, x = place_of(input), weights = on_cpu(weight), biases = on_cpu(bias)] {
        const auto [output, of_batch, inverse] =
            at::native_batch_norm(x, weights, biases, mean, variance, training, momentum, eps);
        return Tensors{output, of_batch, inverse};
      },
      mean && variance ? Tensors{*mean, *variance} : Tensors());
  return {made[0], made[1], made[2]};
}

/// Where it is wanted, cuDNN tries all its algorithms on a shape that it sees for the first time.
void search_algorithms(const char* direction, const at::Tensor& input, const at::Tensor& weight,
                       c10::SymIntArrayRef stride) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  if (!at::globalContext().benchmarkCuDNN()) {
    return;
  }
  const std::lock_guard lock(mutex);
  if (seen.insert(c10::str(direction, input.scalar_type(), input.sizes(), weight.sizes(), stride)).second) {
    streams().count_search();
  }
}

/// Convolutions of devices that others bring have operators of their own, which the CPU lacks.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const MaybeTensor& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const auto guard = on_device_of({input, weight});
  search_algorithms("forward", input, weight, stride);
  return computed([=, x = place_of(input), weights = place_of(weight), biases = on_cpu(bias), strides = stride.vec(),
                   paddings = padding.vec(), dilations = dilation.vec(), outputs = output_padding.vec()] {
    return Tensors{
        at::convolution_symint(x, weights, biases, strides, paddings, dilations, transposed, outputs, groups)};
  })[0];
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> mask) {
  const auto guard = on_device_of({gradient, input, weight});
  search_algorithms("backward", input, weight, stride);
  const Tensors made =
      computed([=, dy = place_of(gradient), x = place_of(input), weights = place_of(weight), strides = stride.vec(),
                paddings = padding.vec(), dilations = dilation.vec(), outputs = output_padding.vec()] {
        const auto [of_input, of_weight, of_bias] = at::convolution_backward_symint(
            dy, x, weights, std::nullopt, strides, paddings, dilations, transposed, outputs, groups, mask);
        return Tensors{of_input, of_weight, of_bias};
      });
  return {made[0], made[1], made[2]};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_cpu>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("native_batch_norm", &batch_norm);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

}  // namespace
}  // namespace rollcall::testing_support::stand_in

// What our models compute with in half precision, as on CPUs (ATen/autocast_mode.cpp).
namespace at::autocast {
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(conv2d, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
}
}  // namespace at::autocast
