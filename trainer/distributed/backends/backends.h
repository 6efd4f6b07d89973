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
  RankNames names{};                           ///< of the group's ranks, in messages
  std::shared_ptr<ProcessWatch> processes{};   ///< of the step's ranks; null: the backend watches them itself
};

/// What carries a group's collectives on CPU tensors.
struct Backend {
  /// It carries those of `group`, and becomes its default backend. Throws what c10d throws; CollectiveFailure where an
  /// error says more. Null: it is not in this build.
  void (*add)(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options);
  const char* missing = "";  ///< why it is not
  const char* instead = "";  ///< what to do about that
};

/// A backend under the name that setting `backend` has for it.
struct NamedBackend {
  std::string_view name;
  const Backend* backend;  ///< null: carries tensors of a device alone, whose plugin has it
};

/// Every backend there is. Another one is a folder that defines it, its row here, and its name in
/// runtime/contract/backends.h.
extern const Backend kGloo, kUcx, kMpi;
inline constexpr std::array kBackends{NamedBackend{"gloo", &kGloo}, NamedBackend{"ucx", &kUcx},
                                      NamedBackend{"mpi", &kMpi}, NamedBackend{"nccl", nullptr}};

}  // namespace rollcall::process_group
