#pragma once

#include <c10/util/intrusive_ptr.h>
#include <array>
#include <chrono>
#include <memory>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {

struct BackendOptions {
  std::chrono::milliseconds timeout{600'000};  ///< a collective that takes longer is an error
  RankNames names{};                           ///< the ranks' numbers in the step, for messages
  std::shared_ptr<ProcessWatch> processes{};   ///< watches the step's ranks; null: the backend watches them itself
};

/// A backend for collectives on CPU tensors.
struct Backend {
  /// Adds the backend to `group` as its default. Throws what c10d throws, and CollectiveFailure with a complete error.
  /// Null if the backend is not in this build.
  void (*add)(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options);
  const char* missing = "";  ///< why it is not in this build
  const char* instead = "";  ///< the action of the error message then
};

/// A backend with its name in setting `backend`.
struct NamedBackend {
  std::string_view name;
  const Backend* backend;  ///< null if it carries only tensors of a device, whose plugin provides it
};

/// All backends. A new one needs a folder that defines it, its row here, and its name in runtime/contract/backends.h.
extern const Backend kGloo, kUcx, kMpi;
inline constexpr std::array kBackends{NamedBackend{"gloo", &kGloo}, NamedBackend{"ucx", &kUcx},
                                      NamedBackend{"mpi", &kMpi}, NamedBackend{"nccl", nullptr}};

}  // namespace rollcall::process_group
