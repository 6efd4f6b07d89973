#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "runtime/base/result.h"

/// The part of cuDNN's C API of graphs that cudnn_graph needs. Not thread-safe: cuDNN's last message is the thread's.
namespace rollcall::cudnn {

/// Returns what cuDNN says of a failure: the status, and the last message where there is one.
inline std::string told(cudnnStatus_t status) {
  std::array<char, 512> last{};
  cudnnGetLastErrorString(last.data(), last.size());
  return cudnnGetErrorString(status) + (last[0] == '\0' ? std::string() : ": " + std::string(last.data()));
}

/// Success, or an Error whose setting is "cuDNN" and whose value is `what` failed.
inline Result<void> checked(cudnnStatus_t status, const char* what) {
  return status == CUDNN_STATUS_SUCCESS ? Result<void>()
                                        : Result<void>(fail("cuDNN", what, told(status), "", ErrorKind::Unavailable));
}

/// What cuDNN calls the type of an attribute whose values are T.
template <typename T>
constexpr cudnnBackendAttributeType_t type_of() {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return CUDNN_TYPE_INT64;
  } else if constexpr (std::is_same_v<T, bool>) {
    return CUDNN_TYPE_BOOLEAN;
  } else if constexpr (std::is_same_v<T, float>) {
    return CUDNN_TYPE_FLOAT;
  } else if constexpr (std::is_same_v<T, cudnnHandle_t>) {
    return CUDNN_TYPE_HANDLE;
  } else if constexpr (std::is_same_v<T, cudnnDataType_t>) {
    return CUDNN_TYPE_DATA_TYPE;
  } else if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) {
    return CUDNN_TYPE_CONVOLUTION_MODE;
  } else if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) {
    return CUDNN_TYPE_POINTWISE_MODE;
  } else if constexpr (std::is_same_v<T, cudnnGenStatsMode_t>) {
    return CUDNN_TYPE_GENSTATS_MODE;
  } else {
    static_assert(std::is_same_v<T, cudnnBackendHeurMode_t>);
    return CUDNN_TYPE_HEUR_MODE;
  }
}

/// A descriptor of cuDNN's, which it owns. The first failure of making it or of set() is kept until finalize() returns
/// it. Descriptors that it was set to refer to must live as long as it.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t raw = nullptr;
    status_ = cudnnBackendCreateDescriptor(type, &raw);
    raw_.reset(raw);
  }

  [[nodiscard]] cudnnBackendDescriptor_t raw() const { return raw_.get(); }

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                  const void* values) {
    if (status_ == CUDNN_STATUS_SUCCESS) {
      status_ = cudnnBackendSetAttribute(raw(), name, type, count, values);
    }
    return *this;
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, type_of<T>(), 1, &value);
  }
  template <typename T, std::size_t N>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::array<T, N>& values) {
    return set(name, type_of<T>(), N, values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    const cudnnBackendDescriptor_t raw_other = other.raw();
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw_other);
  }

  /// `what`: of an Error, that could not be made.
  Result<void> finalize(const char* what) {
    return checked(status_ == CUDNN_STATUS_SUCCESS ? cudnnBackendFinalize(raw()) : status_, what);
  }

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t raw) const { cudnnBackendDestroyDescriptor(raw); }
  };

  std::unique_ptr<void, Destroy> raw_;
  cudnnStatus_t status_;
};

}  // namespace rollcall::cudnn
