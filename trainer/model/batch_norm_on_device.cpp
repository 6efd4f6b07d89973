#include <optional>
#include <utility>

#include "trainer/device/element_type.h"
#include "trainer/model/batch_norm_passes.h"

namespace rollcall::model {
namespace {

namespace kernels = device::kernels;

constexpr auto kLayout = at::MemoryFormat::ChannelsLast;

std::optional<kernels::ElementType> element_type(const at::Tensor& x) { return device::element_type(x.scalar_type()); }

bool lies_on_16_bytes(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

/// Returns whether there is no other reference to the tensor, so that it may be overwritten.
bool is_ours_alone(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

/// Returns `other` in the layout in which the kernels read it beside x.
at::Tensor like(const at::Tensor& x, at::Tensor other) {
  other = other.to(x.scalar_type()).contiguous(kLayout);
  return lies_on_16_bytes(other) ? other : other.clone(kLayout);
}

kernels::Shape shape_of(const at::Tensor& x) {
  return {.type = *element_type(x), .rows = x.numel() / x.size(1), .channels = x.size(1)};
}

kernels::Affine view(const Affine& affine) {
  return {.mean = affine.mean.const_data_ptr<float>(),
          .inverse_stddev = affine.inverse_stddev.const_data_ptr<float>(),
          .weight = affine.weight.const_data_ptr<float>(),
          .bias = affine.bias.const_data_ptr<float>()};
}

at::Tensor floats(const at::Tensor& x, std::int64_t count) { return at::empty({count}, x.options().dtype(at::kFloat)); }
at::Tensor doubles(const at::Tensor& x, std::int64_t count) {
  return at::empty({count}, x.options().dtype(at::kDouble));
}

kernels::Image image_of(const at::Tensor& x) { return {.height = x.size(2), .width = x.size(3)}; }

/// What Epilogue::ReluMaxPool makes of x.
at::Tensor empty_pooled(const at::Tensor& x) {
  return at::empty({x.size(0), x.size(1), (x.size(2) + 1) / 2, (x.size(3) + 1) / 2}, x.options(), kLayout);
}

/// Memory is allocated by LibTorch on the current stream, so it may be freed while kernels of that stream still use it.
class KernelPasses final : public BatchNormPasses {
 public:
  KernelPasses(const device::Kernels& kernels, const device::KernelParts& parts) : kernels_(kernels), parts_(parts) {}

  BatchStatistics statistics(const at::Tensor& x, const RunningStatistics& running,
                             StatisticsRanks* ranks) const override {
    const kernels::Shape shape = shape_of(x);
    BatchStatistics made{
        .mean = floats(x, shape.channels), .inverse_stddev = floats(x, shape.channels), .count = doubles(x, 1)};
    const kernels::Statistics to{.mean = made.mean.mutable_data_ptr<float>(),
                                 .inverse_stddev = made.inverse_stddev.mutable_data_ptr<float>(),
                                 .count = made.count.mutable_data_ptr<double>(),
                                 .running_mean = running.mean.mutable_data_ptr<float>(),
                                 .running_variance = running.variance.mutable_data_ptr<float>(),
                                 .eps = running.eps,
                                 .momentum = running.momentum};
    const at::Tensor workspace = workspace_for(shape, x);
    kernels::BatchNormStatistics of{.shape = shape,
                                    .x = x.const_data_ptr(),
                                    .workspace = workspace.mutable_data_ptr(),
                                    .counters = counters_for(x),
                                    .moments = nullptr,
                                    .statistics = to};
    if (ranks == nullptr) {
      kernels_.batch_norm_statistics(of);
      return made;
    }
    const at::Tensor moments = doubles(x, 2 * shape.channels + 1);
    of.moments = moments.mutable_data_ptr<double>();
    kernels_.batch_norm_statistics(of);
    const at::Tensor all = ranks->gather(moments);
    kernels_.merge_statistics(
        {.ranks = all.size(0), .channels = shape.channels, .moments = all.const_data_ptr<double>(), .statistics = to});
    return made;
  }

  Output normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue, const at::Tensor& shortcut,
                   bool keeps) const override {
    const at::Tensor added = epilogue == Epilogue::AddRelu ? like(x, shortcut) : at::Tensor();
    const at::Tensor y = epilogue == Epilogue::ReluMaxPool ? empty_pooled(x) : at::empty_like(x);
    const at::Tensor kept = keeps ? empty_bytes(x, y, epilogue) : at::Tensor();
    kernels_.batch_norm_add_relu_forward({.shape = shape_of(x),
                                          .epilogue = epilogue,
                                          .x = x.const_data_ptr(),
                                          .added = added.defined() ? added.const_data_ptr() : nullptr,
                                          .y = y.mutable_data_ptr(),
                                          .kept = kept.defined() ? kept.mutable_data_ptr<std::uint8_t>() : nullptr,
                                          .affine = view(affine),
                                          .image = image_of(x),
                                          .backwards = parts_.reverse_order});
    return {.y = y, .kept = kept.defined() || epilogue == Epilogue::None ? kept : y};
  }

  Gradients backward(at::Tensor first, at::Tensor second, const Normalised& of, StatisticsRanks* ranks) const override {
    const at::Tensor& x = of.x;
    const kernels::Shape shape = shape_of(x);
    first = like(x, std::move(first));
    second = second.defined() ? like(x, std::move(second)) : second;
    const bool adds = of.epilogue == Epilogue::AddRelu;
    const bool pools = of.epilogue == Epilogue::ReluMaxPool;
    const bool ours = is_ours_alone(first) && !pools;
    const at::Tensor below = adds && !ours ? at::empty_like(x) : first;
    // The first one's memory is for the gradient of the addition, if there is one.
    const at::Tensor& spare = adds ? second : first;
    const bool reuses = spare.defined() && !pools && (adds ? is_ours_alone(second) : ours);
    Gradients made{.x = reuses ? spare : at::empty_like(x),
                   .weight = floats(x, shape.channels),
                   .bias = floats(x, shape.channels),
                   .shortcut = adds ? below : at::Tensor()};
    at::Tensor sums = doubles(x, 2 * shape.channels);
    const at::Tensor workspace = workspace_for(shape, x);
    const bool bytes = of.kept.defined() && of.kept.scalar_type() == at::kByte;
    const std::uint8_t* const kept = bytes ? of.kept.const_data_ptr<std::uint8_t>() : nullptr;
    const kernels::OutputGradients gradients{.first = first.const_data_ptr(),
                                             .second = second.defined() ? second.const_data_ptr() : nullptr};
    kernels_.batch_norm_add_relu_backward_sums({.shape = shape,
                                                .epilogue = of.epilogue,
                                                .gradients = gradients,
                                                .x = x.const_data_ptr(),
                                                .y = adds && !bytes ? of.kept.const_data_ptr() : nullptr,
                                                .kept = kept,
                                                .below = adds ? below.mutable_data_ptr() : nullptr,
                                                .affine = view(of.affine),
                                                .image = image_of(x),
                                                .workspace = workspace.mutable_data_ptr(),
                                                .counters = counters_for(x),
                                                .sums = sums.mutable_data_ptr<double>(),
                                                .weight_gradient = made.weight.mutable_data_ptr<float>(),
                                                .bias_gradient = made.bias.mutable_data_ptr<float>()});
    if (ranks != nullptr) {
      ranks->add_up(sums);
    }
    const kernels::OutputGradients of_addition{.first = below.const_data_ptr(), .second = nullptr};
    kernels_.batch_norm_add_relu_backward_input({.shape = shape,
                                                 .epilogue = of.epilogue,
                                                 .gradients = adds ? of_addition : gradients,
                                                 .x = x.const_data_ptr(),
                                                 .kept = kept,
                                                 .x_gradient = made.x.mutable_data_ptr(),
                                                 .affine = view(of.affine),
                                                 .image = image_of(x),
                                                 .sums = sums.const_data_ptr<double>(),
                                                 .count = of.count.const_data_ptr<double>(),
                                                 .backwards = parts_.reverse_order});
    return made;
  }

  [[nodiscard]] bool adds_gradients(Epilogue epilogue) const override {
    return parts_.residual_gradient && (epilogue == Epilogue::AddRelu || epilogue == Epilogue::ReluMaxPool);
  }
  [[nodiscard]] bool pools() const override { return parts_.stem_pool; }

 private:
  [[nodiscard]] at::Tensor workspace_for(const kernels::Shape& shape, const at::Tensor& x) const {
    const std::size_t bytes = kernels_.workspace_bytes(shape);
    return doubles(x, static_cast<std::int64_t>((bytes + sizeof(double) - 1) / sizeof(double)));
  }

  /// Returns what Output::kept is to hold instead of y; undefined if y is kept.
  [[nodiscard]] at::Tensor empty_bytes(const at::Tensor& x, const at::Tensor& y, Epilogue epilogue) const {
    if (epilogue == Epilogue::ReluMaxPool) {
      return at::empty_like(y, y.options().dtype(at::kByte));
    }
    return epilogue == Epilogue::AddRelu && parts_.relu_mask
               ? at::empty({static_cast<std::int64_t>(kernels_.mask_bytes(shape_of(x)))}, x.options().dtype(at::kByte))
               : at::Tensor();
  }

  /// Returns the layer's counters, all 0 between its kernels; null if blocks are merged in a kernel of its own.
  [[nodiscard]] std::uint32_t* counters_for(const at::Tensor& x) const {
    if (!parts_.merge_at_once) {
      return nullptr;
    }
    if (!counters_.defined()) {
      counters_ = at::zeros({kernels::kCountersOfAChannel * x.size(1)}, x.options().dtype(at::kInt));
    }
    return static_cast<std::uint32_t*>(counters_.mutable_data_ptr());
  }

  const device::Kernels& kernels_;
  const device::KernelParts parts_;
  mutable at::Tensor counters_;
};

}  // namespace

bool kernels_take(const at::Tensor& x, const at::Tensor& weight) {
  // With shared statistics all ranks must decide alike: an empty batch has no layout of its own.
  const bool laid_out = x.numel() == 0 || (x.is_contiguous(kLayout) && lies_on_16_bytes(x));
  return !x.is_cpu() && x.layout() == at::kStrided && x.dim() == 4 && x.size(1) > 0 && element_type(x) && laid_out &&
         weight.scalar_type() == at::kFloat && weight.is_contiguous();
}

BatchNormPassesPtr kernel_passes(const device::Kernels& kernels, const device::KernelParts& parts) {
  return c10::make_intrusive<KernelPasses>(kernels, parts);
}

}  // namespace rollcall::model
