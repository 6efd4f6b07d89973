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
#include <c10/core/CachingDeviceAllocator.h>
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

/// What streams are given while it is under way: not done, but kept in order.
struct Capture {
  std::set<c10::StreamId> streams;  ///< the one that it began on, and those that waited for one of them
  std::set<c10::StreamId> open;     ///< which none of the others has waited for since
  std::vector<std::function<void()>> works;
};

/// Work that streams were given and have not done. Backward passes have a thread of their own, hence the lock.
class Streams {
 public:
  /// A moment of a stream: after the first `count` things that it was given.
  struct Moment {
    c10::StreamId stream = 0;
    std::size_t count = 0;
    bool captured = false;
  };

  void give(c10::StreamId stream, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (captures(stream)) {
      capture_->works.push_back(std::move(work));
      capture_->open.insert(stream);
      return;
    }
    queues_[stream].given += 1;
    queues_[stream].waiting.push_back(std::move(work));
  }
  Moment now(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return {stream, queues_[stream].given, captures(stream)};
  }
  void let_wait(c10::StreamId stream, Moment moment) {
    const std::lock_guard lock(mutex_);
    counts_.waits += 1;
    if (moment.captured) {
      TORCH_CHECK(capture_, "stand-in: a stream waits for an event of a capture that has ended");
      capture_->streams.insert(stream);
      capture_->open.erase(moment.stream);
      capture_->open.insert(stream);
      return;
    }
    TORCH_CHECK(!captures(stream), "stand-in: a captured stream waits for work that is not captured");
    give(stream, [this, moment] { reach(moment); });
  }
  void reach(Moment moment) {
    TORCH_CHECK(!moment.captured, "stand-in: the host waits for work that is captured");
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[moment.stream];
    while (queue.done < moment.count) {
      const std::function<void()> work = std::move(queue.waiting.front());
      queue.waiting.pop_front();
      queue.done += 1;
      work();
    }
  }
  /// Not while a stream does its work, which may take long.
  bool reached(Moment moment) {
    TORCH_CHECK(!moment.captured, "stand-in: the host looks at work that is captured");
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock.owns_lock() && queues_[moment.stream].done >= moment.count;
  }
  bool captures(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return capture_ && capture_->streams.contains(stream);
  }
  /// All that streams were given is done first.
  void begin_capture(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, queue] : queues_) {
      reach({.stream = id, .count = queue.given});
    }
    TORCH_CHECK(stream != 0 && !capture_, "stand-in: the default stream cannot be captured, nor two at once");
    capture_.emplace(Capture{.streams = {stream}, .open = {stream}, .works = {}});
  }
  std::vector<std::function<void()>> end_capture(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    Capture captured = *std::exchange(capture_, std::nullopt);
    captured.open.erase(stream);
    TORCH_CHECK(captured.open.empty(), "stand-in: a captured stream was not waited for");
    return std::move(captured.works);
  }
  c10::StreamId make() {
    const std::lock_guard lock(mutex_);
    return ++made_;
  }
  void count_copy() { counts_.late_copies += 1; }
  void count_host_wait() { counts_.host_waits += 1; }
  void count_host_wait_for_event() { counts_.host_waits_for_event += 1; }
  void count_replay() { counts_.replays += 1; }
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
  std::optional<Capture> capture_;
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

bool captures_current() { return streams().captures(current); }

/// While the current stream is captured there is nothing to be finished.
void finish_current() {
  if (!captures_current()) {
    streams().reach(streams().now(current));
  }
}

/// The host waits for all that the current stream was given.
void host_waits() {
  TORCH_CHECK(!captures_current(), "stand-in: the host waits for a stream that is captured");
  streams().count_host_wait();
}

/// Addresses that nobody can read, and beside them the memory that they stand for.
class Memory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    // What a capture frees serves it alone, and stays its own: its graph writes there whenever it is replayed.
    const bool of_capture = captures_current();
    const std::lock_guard lock(mutex_);
    const Key key{current, (bytes + kAlignment - 1) / kAlignment * kAlignment, of_capture};
    std::vector<char*>& freed = freed_[key];
    char* address = nullptr;
    if (!freed.empty()) {
      address = freed.back();
      freed.pop_back();
    } else {
      address = fresh(key.bytes);
    }
    allocated_.increase(key.bytes);
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
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - addresses_);
    TORCH_CHECK(offset < kBytes, "an address of the host where one of the device is wanted");
    return values_ + offset;
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    const std::lock_guard lock(mutex_);
    give_back_to_device();
  }
  void recordStream(const c10::DataPtr& /*memory*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*index*/) override {
    const std::lock_guard lock(mutex_);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0] = allocated_;
    stats.reserved_bytes[0] = reserved_;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*index*/) override {}
  void resetPeakStats(c10::DeviceIndex /*index*/) override {
    const std::lock_guard lock(mutex_);
    allocated_.reset_peak();
    reserved_.reset_peak();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex /*index*/) override {
    const std::lock_guard lock(mutex_);
    return {memory_limit() - static_cast<std::size_t>(reserved_.current), memory_limit()};
  }

 private:
  static constexpr std::size_t kAlignment = 512;
  static constexpr std::size_t kBytes = std::size_t{1} << 32;
  struct Key {
    c10::StreamId stream;
    std::size_t bytes;
    bool of_capture;
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
    block->memory->allocated_.decrease(block->key.bytes);
  }
  void give_back_to_device() {
    std::erase_if(freed_, [this](const auto& freed) {
      const auto& [key, addresses] = freed;
      reserved_.decrease(key.of_capture ? 0 : key.bytes * addresses.size());
      return !key.of_capture;
    });
  }
  /// Filled with NaNs, whatever the type. No address is used for two sizes.
  char* fresh(std::size_t bytes) {
    static const std::size_t kMost = memory_limit();
    const auto fits = [&] { return static_cast<std::size_t>(reserved_.current) + bytes <= kMost; };
    if (!fits()) {
      give_back_to_device();
    }
    TORCH_CHECK_WITH(OutOfMemoryError, fits() && used_ + bytes <= kBytes, "stand-in out of memory: tried to allocate ",
                     bytes, " bytes, and ", reserved_.current, " of ", kMost, " are in use");
    char* const address = addresses_ + used_;
    std::memset(behind(address), 0xff, bytes);
    used_ += bytes;
    reserved_.increase(bytes);
    return address;
  }

  std::mutex mutex_;
  char* const addresses_ = map(PROT_NONE);
  char* const values_ = map(PROT_READ | PROT_WRITE);
  std::size_t used_ = 0;  ///< addresses
  c10::CachingAllocator::Stat allocated_;
  c10::CachingAllocator::Stat reserved_;
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
  if (Operator::under_way()) {
    finish_current();
    target.copy_(source);
    return to;
  }
  TORCH_CHECK(within || !captures_current(), "stand-in: memory of the host is copied by a stream that is captured");
  streams().give(current, [target, source] { target.copy_(source); });
  if (non_blocking || within) {
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

using Tensors = std::vector<at::Tensor>;

/// `value` with the memory behind its tensors; numbers are kept as they are.
c10::IValue on_cpu(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() && !tensor.is_cpu() ? c10::IValue(on_cpu(tensor)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(on_cpu(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor && tensor->defined() ? std::optional(on_cpu(*tensor)) : tensor);
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
  streams().give(current, [op, arguments, outcome] {
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
    host_waits();
  }
  const Operator own;
  finish_current();
  if (captures_current()) {
    capture_operator(op, stack);
  } else {
    at::native::cpu_fallback(op, stack);
  }
}

using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor on_cpu(const MaybeTensor& tensor) {
  return tensor && tensor->defined() ? MaybeTensor(on_cpu(*tensor)) : std::nullopt;
}

/// On the device what `compute` returns, tensors of the CPU; it writes into `written` beside.
template <typename Compute>
Tensors computed(const Compute& compute, const Tensors& written = {}) {
  const Operator own;
  finish_current();
  const bool captured = captures_current();
  const Tensors before = captured ? copies_of(written) : Tensors();
  Tensors there;
  Tensors behind;
  for (const at::Tensor& tensor : compute()) {
    there.push_back(tensor.defined() ? tensor.to(device()) : tensor);
    behind.push_back(tensor.defined() ? on_cpu(there.back()) : tensor);
  }
  if (captured) {
    put(before, written);
    streams().give(current, [compute, behind] {
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
  const MaybeTensor mean = on_cpu(running_mean);
  const MaybeTensor variance = on_cpu(running_var);
  const Tensors made = computed(
      [=, x = on_cpu(input), weights = on_cpu(weight), biases = on_cpu(bias)] {
        const auto [output, of_batch, inverse] =
            at::native_batch_norm(x, weights, biases, mean, variance, training, momentum, eps);
        return Tensors{output, of_batch, inverse};
      },
      mean && variance ? Tensors{*mean, *variance} : Tensors());
  return {made[0], made[1], made[2]};
}

/// Convolutions of devices that others bring have operators of their own, which the CPU lacks.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const MaybeTensor& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  return computed([=, x = on_cpu(input), weights = on_cpu(weight), biases = on_cpu(bias), strides = stride.vec(),
                   paddings = padding.vec(), dilations = dilation.vec(), outputs = output_padding.vec()] {
    return Tensors{
        at::convolution_symint(x, weights, biases, strides, paddings, dilations, transposed, outputs, groups)};
  })[0];
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> mask) {
  const Tensors made =
      computed([=, dy = on_cpu(gradient), x = on_cpu(input), weights = on_cpu(weight), strides = stride.vec(),
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
    TORCH_CHECK(!streams().captures(of.id()), "stand-in: the host waits for a stream that is captured");
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

std::function<void()> capture(const std::function<void()>& work) {
  streams().begin_capture(current);
  try {
    work();
  } catch (...) {
    try {
      streams().end_capture(current);
    } catch (const c10::Error&) {
      // What went wrong first is what is told.
    }
    throw;
  }
  return [works = streams().end_capture(current)] {
    streams().count_replay();
    streams().give(current, [works] {
      for (const std::function<void()>& captured : works) {
        captured();
      }
    });
  };
}

bool is_captured() { return captures_current(); }

void enqueue(std::function<void()> work) { streams().give(current, std::move(work)); }

void* behind(const void* address) { return memory().behind(address); }

at::Tensor place_of(const at::Tensor& tensor) { return on_cpu(tensor); }

at::Tensor values_of(const at::Tensor& tensor) {
  finish_current();
  return on_cpu(tensor);
}

}  // namespace rollcall::testing_support::stand_in
