#include "trainer/distributed/ddp/gradient_compression.h"

#include <torch/torch.h>
#include <vector>

namespace rollcall::parallel {
namespace {

struct Compression {
  process_group::Group group;
  c10::ScalarType type;
};

class CompressionHook : public c10d::CppCommHookInterface<Compression> {
 public:
  explicit CompressionHook(const Compression& compression) : c10d::CppCommHookInterface<Compression>(compression) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const torch::NoGradGuard no_grad;
    at::Tensor gradients = bucket.getBufferRef();
    std::vector<at::Tensor> compressed{gradients.to(state_.type).div_(state_.group->getSize())};
    return state_.group->allreduce(compressed)
        ->getFuture()
        ->then(
            [gradients, compressed](c10::ivalue::Future& done) -> c10::IValue {
              (void)done.value();  // throws what went wrong
              const torch::NoGradGuard no_gradient;
              gradients.copy_(compressed.front());
              return gradients;
            },
            c10::TensorType::get());
  }
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> compress_gradients(const process_group::Group& group, c10::ScalarType type) {
  return std::make_unique<CompressionHook>(Compression{group, type});
}

}  // namespace rollcall::parallel
