#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "trainer/data/loader/loader.h"
#include "trainer/data/transforms/transforms.h"
#include "trainer/device/kernels.h"

namespace rollcall::data {

/// Prepares batches for the model. uint8 images are normalised on the model's device, in float32. For a device, each
/// batch is also copied on a stream of its own into one of two device buffers that are reused, so that a batch is
/// copied while the previous one is used and no step waits for the host. Used by one thread.
///
/// A batch's host memory is held until its copy has completed, so the loader, which reuses only memory that nobody
/// holds (see Loader), cannot overwrite it. LoaderOptions::held counts these batches.
class DevicePrefetcher {
 public:
  /// The maximum number of batches that are being copied.
  static constexpr int kInFlight = 2;

  /// Copies nothing if `device` is the CPU. `kernels` are the device's and must stay loaded; null: LibTorch's operators
  /// normalise in float32 and round once more. `normalisation` applies to uint8 images (PixelType::UInt8); the kernels
  /// write `computes_in` (float32, float16, bfloat16). `longest` is the time limit of waiting for a copy.
  explicit DevicePrefetcher(c10::Device device, const device::Kernels* kernels = nullptr,
                            const Normalisation& normalisation = {}, c10::ScalarType computes_in = at::kFloat,
                            std::chrono::milliseconds longest = std::chrono::minutes(10));
  DevicePrefetcher(const DevicePrefetcher&) = delete;
  DevicePrefetcher& operator=(const DevicePrefetcher&) = delete;
  /// Waits for the copies in progress.
  ~DevicePrefetcher();

  /// Returns `batch` on the device, ready for work that is enqueued on its current stream from now on. All work that
  /// reads the previously returned batch must have been enqueued on that stream before; its memory is reused by the
  /// next call but one. Throws what LibTorch throws.
  [[nodiscard]] Batch to_device(Batch batch);

 private:
  /// Device memory for the largest batch so far, and the event after which it may be reused.
  struct Buffers {
    explicit Buffers(c10::Device device) : used(device.type()) {}
    at::Tensor images, labels, second_labels, counted;
    c10::Event used;
  };
  /// A batch in host memory and the event after which its copy is complete.
  struct PendingCopy {
    Batch batch;
    c10::Event copied;
  };
  struct Streams {
    explicit Streams(c10::Device device);
    c10::Device device;
    c10::Stream beside;
    std::array<Buffers, 2> buffers;
    std::deque<PendingCopy> pending;
    std::size_t next = 0;  ///< index of the next buffer
  };
  void release_copied();
  [[nodiscard]] Batch copied(Batch batch);
  void normalise(Batch& batch) const;
  std::unique_ptr<Streams> streams_;  ///< null if the device is the CPU
  const device::Kernels* kernels_;
  ChannelAffine affine_;
  const c10::ScalarType computes_in_;
  const std::chrono::milliseconds longest_;
  at::Tensor scale_, bias_;  ///< [1, 3, 1, 1] float32 on the device
};

}  // namespace rollcall::data
