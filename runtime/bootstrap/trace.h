#pragma once

#include <string>

namespace rollcall::bootstrap {

/// One source of job facts that was asked, in order: who answered, and why the others declined. `rollcall env` and
/// error reports show it.
struct TraceEntry {
  std::string source;  ///< "environment", "pmix", "ompi", "pmi", "slurm", "single"
  bool answered = false;
  std::string detail;  ///< one clause: "rank 3 of 8 on 2 nodes", "PMIX_NAMESPACE is not set"
};

}  // namespace rollcall::bootstrap
