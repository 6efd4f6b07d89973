#pragma once

#include <vector>

#include "trainer/torch.h"

namespace rollcall::precision {

/// Copies, in the type of autocast, of the weights and biases that autocast casts: of a model's convolutions and linear
/// layers. Autocast casts each of them by itself in every forward pass; refresh() casts all of them at once, and Use
/// makes the layers compute with the copies, which autocast leaves as they are. Gradients go to the float32 weights, as
/// with autocast, with the same bits. Parameters stay what they are, and so do forward passes outside of Use.
///
/// Without layers (the default, or a scripted model) it does nothing. Not thread-safe.
class LoweredWeights {
 public:
  LoweredWeights() = default;
  /// Copies nothing yet. `model` outlives this and keeps its parameters, whose values may change.
  LoweredWeights(torch::nn::Module& model, at::ScalarType type);

  /// Copies the values of all weights, on the current stream. Call it before the forward passes of a step, and not
  /// between a forward and its backward pass.
  void refresh();

  /// The layers compute with the copies during the lifetime of this.
  class Use {
   public:
    explicit Use(LoweredWeights& weights) : weights_(weights) { weights_.exchange(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { weights_.exchange(); }

   private:
    LoweredWeights& weights_;
  };

 private:
  void add(at::Tensor& of_layer, at::ScalarType type);
  void exchange() noexcept;

  std::vector<at::Tensor> weights_;     ///< parameters of the model
  std::vector<at::Tensor> copies_;      ///< of them; during Use the layers' own
  std::vector<at::Tensor*> of_layers_;  ///< where the layers find them
};

}  // namespace rollcall::precision
