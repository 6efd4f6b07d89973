#include "tests/support/stand_in_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

namespace rollcall::testing_support::stand_in {
namespace {

/// Work that streams were given and have not done. Backward passes have a thread of their own, hence the lock.
class Streams {
 public:
  /// A moment of a stream: after the first `count` things that it was given.
  struct Moment {
    c10::StreamId stream = 0;
    std::size_t count = 0;
  };

  void give(c10::StreamId stream, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queues_[stream].given += 1;
    queues_[stream].waiting.push_back(std::move(work));
  }
  Moment now(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return {stream, queues_[stream].given};
  }
  void let_wait(c10::StreamId stream, Moment moment) {
    counts_.waits += 1;
    give(stream, [this, moment] { reach(moment); });
  }
  void reach(Moment moment) {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[moment.stream];
    while (queue.done < moment.count) {
      const std::function<void()> work = std::move(queue.waiting.front());
      queue.waiting.pop_front();
      queue.done += 1;
      work();
    }
  }
  bool reached(Moment moment) {
    const std::lock_guard lock(mutex_);
    return queues_[moment.stream].done >= moment.count;
  }
  c10::StreamId make() {
    const std::lock_guard lock(mutex_);
    return ++made_;
  }
  void count_copy() { counts_.late_copies += 1; }
  void count_host_wait() { counts_.host_waits += 1; }
  void count_host_wait_for_event() { counts_.host_waits_for_event += 1; }
  [[nodiscard]] Counts counts() const { return counts_; }

 private:
  struct Queue {
    std::deque<std::function<void()>> waiting;
    std::size_t given = 0;
    std::size_t done = 0;
  };
  std::recursive_mutex mutex_;
  std::map<c10::StreamId, Queue> queues_;
  c10::StreamId made_ = 0;
  Counts counts_;
};

Streams& streams() {
  static Streams all;
  return all;
}

thread_local c10::StreamId current = 0;

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

void finish_current() { streams().reach(streams().now(current)); }

/// Addresses that nobody can read, and beside them the memory that they stand for.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const Key key{current, (bytes + kAlignment - 1) / kAlignment * kAlignment};
    std::vector<char*>& freed = freed_[key];
    char* address = nullptr;
    if (!freed.empty()) {
      address = freed.back();
      freed.pop_back();
    } else {
      address = fresh(key.bytes);
    }
    return {address, new Block{this, key, address}, &give_back, device()};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    finish_current();
    std::memcpy(behind(to), behind(from), bytes);
  }
  [[nodiscard]] char* behind(const void* address) const {
    if (address == nullptr) {  // of a tensor without elements
      return nullptr;
    }
    return values_ + (static_cast<const char*>(address) - addresses_);
  }

 private:
  static constexpr std::size_t kAlignment = 512;
  static constexpr std::size_t kBytes = std::size_t{1} << 32;
  struct Key {
    c10::StreamId stream;
    std::size_t bytes;
    auto operator<=>(const Key&) const = default;
  };
  struct Block {
    Memory* memory;
    Key key;
    char* address;
  };

  /// STAND_IN_MEMORY: as many bytes.
  static std::size_t memory_limit() {
    const char* const given = std::getenv("STAND_IN_MEMORY");
    return given == nullptr ? kBytes : std::min(kBytes, std::stoul(given));
  }
  static char* map(int protection) {
    void* const place = mmap(nullptr, kBytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
      throw std::bad_alloc();
    }
    return static_cast<char*>(place);
  }
  static void give_back(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    const std::lock_guard lock(block->memory->mutex_);
    block->memory->freed_[block->key].push_back(block->address);
  }
  /// Filled with NaNs, whatever the type.
  char* fresh(std::size_t bytes) {
    static const std::size_t kMost = memory_limit();
    TORCH_CHECK_WITH(OutOfMemoryError, used_ + bytes <= kMost, "stand-in out of memory: tried to allocate ", bytes,
                     " bytes, and ", used_, " of ", kMost, " are in use");
    char* const address = addresses_ + used_;
    std::memset(behind(address), 0xff, bytes);
    used_ += bytes;
    return address;
  }

  std::mutex mutex_;
  char* const addresses_ = map(PROT_NONE);
  char* const values_ = map(PROT_READ | PROT_WRITE);
  std::size_t used_ = 0;
  std::map<Key, std::vector<char*>> freed_;
};

Memory& memory() {
  static Memory all;
  return all;
}

/// The same values as a tensor of the CPU that owns nothing.
at::Tensor on_cpu(const at::Tensor& tensor) {
  const at::TensorOptions type(tensor.scalar_type());
  void* const address =
      tensor.is_cpu() ? tensor.mutable_data_ptr() : static_cast<void*>(memory().behind(tensor.mutable_data_ptr()));
  return at::from_blob(address, tensor.sizes(), tensor.strides(), type);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const torch::NoGradGuard no_grad;
  const at::Tensor target = on_cpu(to);
  const at::Tensor source = on_cpu(from);
  const bool within = !from.is_cpu() && !to.is_cpu();
  streams().give(current, [target, source] { target.copy_(source); });
  if (non_blocking || within) {
    streams().count_copy();
  } else {
    if (!Operator::under_way()) {
      streams().count_host_wait();
    }
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

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> /*device*/, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &memory(), kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                         std::optional<bool> /*pinned*/) {
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

/// Every other operator: on copies of its tensors in main memory. As with a GPU, only numbers may come from there.
void compute_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (argument.isTensor()) {
      check_is_here(op, argument.toTensor());
    } else if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorVector()) {
        check_is_here(op, tensor);
      }
    }
  }
  if (host_waits_for(op)) {
    streams().count_host_wait();
  }
  const Operator own;
  finish_current();
  at::native::cpu_fallback(op, stack);
}

using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor on_cpu(const MaybeTensor& tensor) {
  return tensor && tensor->defined() ? MaybeTensor(on_cpu(*tensor)) : std::nullopt;
}

/// Its schema does not say that it changes the running statistics, so that the fallback would change copies of them.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input, const MaybeTensor& weight,
                                                          const MaybeTensor& bias, const MaybeTensor& running_mean,
                                                          const MaybeTensor& running_var, bool training,
                                                          double momentum, double eps) {
  const Operator own;
  finish_current();
  const auto [output, mean, inverse] = at::native_batch_norm(
      on_cpu(input), on_cpu(weight), on_cpu(bias), on_cpu(running_mean), on_cpu(running_var), training, momentum, eps);
  return {output.to(input.device()), mean.to(input.device()), inverse.to(input.device())};
}

/// Convolutions of devices that others bring have operators of their own, which the CPU lacks.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const MaybeTensor& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const Operator own;
  finish_current();
  return at::convolution_symint(on_cpu(input), on_cpu(weight), on_cpu(bias), stride, padding, dilation, transposed,
                                output_padding, groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> mask) {
  const Operator own;
  finish_current();
  const auto [of_input, of_weight, of_bias] =
      at::convolution_backward_symint(on_cpu(gradient), on_cpu(input), on_cpu(weight), std::nullopt, stride, padding,
                                      dilation, transposed, output_padding, groups, mask);
  const auto here = [&](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(input.device()) : tensor; };
  return {here(of_input), here(of_weight), here(of_bias)};
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

namespace rollcall::testing_support::stand_in {
namespace {

/// One device; its default stream has the number 0.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  using Moment = Streams::Moment;

  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, device(), id); }

  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device /*to*/) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device /*to*/) const override {}
  void uncheckedSetDevice(c10::Device /*to*/) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device /*of*/) const override { return stream(current); }
  c10::Stream getDefaultStream(c10::Device /*of*/) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device /*of*/, bool /*high*/) const override {
    return stream(streams().make());
  }
  c10::Stream exchangeStream(c10::Stream to) const override { return stream(std::exchange(current, to.id())); }
  bool queryStream(const c10::Stream& of) const override { return streams().reached(streams().now(of.id())); }
  void synchronizeStream(const c10::Stream& of) const override {
    streams().count_host_wait();
    streams().reach(streams().now(of.id()));
  }

  void record(void** event, const c10::Stream& on, c10::DeviceIndex /*index*/, c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) {
      *event = new Moment();
    }
    *static_cast<Moment*>(*event) = streams().now(on.id());
  }
  void block(void* event, const c10::Stream& waiting) const override {
    streams().let_wait(waiting.id(), *static_cast<Moment*>(event));
  }
  bool queryEvent(void* event) const override { return streams().reached(*static_cast<Moment*>(event)); }
  void synchronizeEvent(void* event) const override {
    streams().count_host_wait_for_event();
    streams().reach(*static_cast<Moment*>(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<Moment*>(event);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  /// torch::manual_seed() seeds it: random numbers, as all operators, are the CPU's.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*index*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};

const bool registered = [] {
  c10::register_privateuse1_backend("stand_in");
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &memory());
  at::RegisterPrivateUse1HooksInterface(new Hooks());  // LibTorch keeps it for ever
  return true;
}();

}  // namespace

c10::Device device() { return {c10::DeviceType::PrivateUse1, 0}; }

Counts counts() { return streams().counts(); }

void enqueue(std::function<void()> work) { streams().give(current, std::move(work)); }

at::Tensor place_of(const at::Tensor& tensor) { return on_cpu(tensor); }

at::Tensor values_of(const at::Tensor& tensor) {
  finish_current();
  return on_cpu(tensor);
}

}  // namespace rollcall::testing_support::stand_in
