#pragma once

#include <utility>
#include <vector>

#include "trainer/torch.h"

namespace rollcall::optim {

/// The exponential moving average of a model's parameters and buffers (EMA, --ema), as torch's AveragedModel with
/// get_ema_multi_avg_fn() and use_buffers=True computes it. Of divided parameters each rank averages its parts. All on
/// the model's devices, for which the host does not wait. Main thread only.
class WeightAverage {
 public:
  using Named = torch::OrderedDict<std::string, at::Tensor>;

  /// Begins with the present values of `parameters` and `buffers`, a model's own tensors, which this object keeps.
  WeightAverage(const Named& parameters, const Named& buffers);

  /// Sets the average to decay * average + (1 - decay) * value. 0: to the values.
  void update(double decay);
  // Parts of that: those that an optimizer changes, and those that a forward pass changes.
  void update_parameters(double decay) { parameters_.update(decay); }
  void update_buffers(double decay) { buffers_.update(decay); }
  /// Exchanges the values of the model and the average, so that the model computes with the average until the next
  /// call.
  void exchange();

  // The average, by the names of the model.
  [[nodiscard]] const Named& parameters() const { return parameters_.named; }
  [[nodiscard]] const Named& buffers() const { return buffers_.named; }

 private:
  struct Part {
    explicit Part(const Named& of_model);
    void update(double decay);
    void exchange();

    Named named;
    std::vector<std::pair<at::Tensor, at::Tensor>> counters;  ///< (average, value) of integers
    std::vector<at::Tensor> averages;                         ///< the others, which are not empty
    std::vector<at::Tensor> values;                           ///< of `averages`
  };

  Part parameters_;
  Part buffers_;
};

}  // namespace rollcall::optim
