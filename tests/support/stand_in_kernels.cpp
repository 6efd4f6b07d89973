// The stand-in device's kernels: the project's own, computed by the host on the memory behind the device's addresses,
// as work of the current stream.
#include "tests/support/kernels_on_host.h"
#include "tests/support/stand_in_device.h"

namespace rollcall::testing_support::stand_in {
namespace {

namespace kernels = device::kernels;

/// A kernel is launched on the current device, where it reaches no memory of another one.
void* behind_here(const void* address) {
  TORCH_CHECK(address == nullptr || device_of(address) == device().index(), "stand-in: a kernel on ", device(),
              " is given memory of device ", static_cast<int>(device_of(address)));
  return behind(address);
}

template <typename... Pointers>
void go_behind(Pointers*&... addresses) {
  ((addresses = static_cast<Pointers*>(behind_here(addresses))), ...);
}

void go_behind(kernels::Affine& affine) { go_behind(affine.mean, affine.inverse_stddev, affine.weight, affine.bias); }
void go_behind(kernels::Statistics& to) {
  go_behind(to.mean, to.inverse_stddev, to.count, to.running_mean, to.running_variance);
}
void go_behind(kernels::BatchNormStatistics& of) {
  go_behind(of.x, of.workspace, of.counters, of.moments);
  go_behind(of.statistics);
}
void go_behind(kernels::MergeStatistics& of) {
  go_behind(of.moments);
  go_behind(of.statistics);
}
void go_behind(kernels::BatchNormForward& of) {
  go_behind(of.x, of.added, of.y, of.kept);
  go_behind(of.affine);
}
void go_behind(kernels::BatchNormBackwardSums& of) {
  go_behind(of.gradients.first, of.gradients.second, of.x, of.y, of.kept, of.below);
  go_behind(of.workspace, of.counters, of.sums, of.weight_gradient, of.bias_gradient);
  go_behind(of.affine);
}
void go_behind(kernels::BatchNormBackwardInput& of) {
  go_behind(of.gradients.first, of.gradients.second, of.x, of.kept, of.x_gradient, of.sums, of.count);
  go_behind(of.affine);
}
void go_behind(kernels::NormaliseImages& of) { go_behind(of.levels, of.images); }
void go_behind(kernels::CastAndScale& of) { go_behind(of.from, of.to, of.scale); }

/// `kFunction`: of the table.
template <auto kFunction, typename What>
void launch(const What& what) {
  What here = what;
  go_behind(here);
  enqueue([here] { (kernels_on_host().*kFunction)(here); });
}

}  // namespace

const device::Kernels& own_kernels() {
  using device::Kernels;
  static const Kernels table{
      .workspace_bytes = kernels_on_host().workspace_bytes,
      .mask_bytes = kernels_on_host().mask_bytes,
      .batch_norm_statistics = &launch<&Kernels::batch_norm_statistics>,
      .merge_statistics = &launch<&Kernels::merge_statistics>,
      .batch_norm_add_relu_forward = &launch<&Kernels::batch_norm_add_relu_forward>,
      .batch_norm_add_relu_backward_sums = &launch<&Kernels::batch_norm_add_relu_backward_sums>,
      .batch_norm_add_relu_backward_input = &launch<&Kernels::batch_norm_add_relu_backward_input>,
      .normalise_images = &launch<&Kernels::normalise_images>,
      .cast_and_scale = &launch<&Kernels::cast_and_scale>};
  return table;
}

}  // namespace rollcall::testing_support::stand_in
