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

/// Batches on their way to the model: images of levels are normalised where it computes, in float32. On their way to a
/// device, too, beside what it computes: each is copied on a stream of its own into one of two
/// places that are made once, so that a batch arrives while the one before is computed with, and no step waits on the
/// host. One thread's.
///
/// The host's memory of a batch is held until its copy has happened: the loader, which writes memory anew that nobody
/// holds (see Loader), does not write what is still to be read. Its options say so many more (LoaderOptions::held).
class BatchCopies {
 public:
  /// Batches whose copies may be on their way.
  static constexpr int kInFlight = 2;

  /// Nothing is copied where `device` is the CPU. `kernels`: the device's, which stay loaded; null: LibTorch's
  /// operators normalise, in float32, and round once more. `normalisation`: of images of levels (PixelType::UInt8), to
  /// `computes_in` (float32, float16, bfloat16) by the kernels. `longest`: for which a copy is waited for.
  explicit BatchCopies(c10::Device device, const device::Kernels* kernels = nullptr,
                       const Normalisation& normalisation = {}, c10::ScalarType computes_in = at::kFloat,
                       std::chrono::milliseconds longest = std::chrono::minutes(10));
  BatchCopies(const BatchCopies&) = delete;
  BatchCopies& operator=(const BatchCopies&) = delete;
  /// Waits for the copies that are on their way.
  ~BatchCopies();

  /// `batch` on the device, ready for what its current stream is given from now on. What is read of the batch that the
  /// call before returned must have been given to that stream; its memory serves the next call but one.
  /// Throws what LibTorch throws.
  [[nodiscard]] Batch place(Batch batch);

 private:
  /// Memory on the device, of the largest batch so far, and when it is free.
  struct Place {
    explicit Place(c10::Device device) : used(device.type()) {}
    at::Tensor images, labels, second_labels, counted;
    c10::Event used;
  };
  /// A batch in the host's memory, and when it is read.
  struct Sent {
    Batch batch;
    c10::Event copied;
  };
  struct Streams {
    explicit Streams(c10::Device device);
    c10::Device device;
    c10::Stream beside;
    std::array<Place, 2> places;
    std::deque<Sent> sent;
    std::size_t next = 0;  ///< place
  };
  void let_go_of_copied();
  [[nodiscard]] Batch copied(Batch batch);
  void normalise(Batch& batch) const;
  std::unique_ptr<Streams> streams_;  ///< null: the CPU
  const device::Kernels* kernels_;
  ChannelAffine affine_;
  const c10::ScalarType computes_in_;
  const std::chrono::milliseconds longest_;
  at::Tensor scale_, bias_;  ///< [1, 3, 1, 1] float32 on the device
};

}  // namespace rollcall::data
