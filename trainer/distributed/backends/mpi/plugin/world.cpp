#include "trainer/distributed/backends/mpi/plugin/world.h"

#include <array>
#include <atomic>
#include <cstdlib>

#include "runtime/contract/env_vars.h"

namespace rollcall::process_group::mpi {
namespace {

std::atomic<bool> g_given_up{false};

/// Set by launchers for each process: PMIx (srun --mpi=pmix, mpirun of Open MPI 3 to 5), Open MPI's own, PMI (MPICH,
/// Intel MPI, srun --mpi=pmi2).
constexpr std::array kSigns{"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};

bool was_launched() {
  for (const char* sign : kSigns) {
    if (std::getenv(sign) != nullptr) {
      return true;
    }
  }
  return false;
}

/// Calls MPI_Finalize(), which waits for all ranks, only at ends that all of them reach. A rank that ends with another
/// exit code does not call it, which MPI's launchers rightly take for a failure: they end the others.
void finalize_at_exit(int status, void* /*unused*/) {
  const bool together = status == to_int(ExitCode::Success) || status == to_int(ExitCode::Interrupted);
  if (together && !has_given_up()) {
    const std::lock_guard lock(mpi_mutex());
    MPI_Finalize();
  }
}

Result<void> initialize() {
  // This process was a PMIx client before MPI becomes one; see rendezvous/exec_step.h.
  setenv(std::string(env::kPmixGds).c_str(), "hash", 0);
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS) {
    return failed("MPI_Init_thread", code);
  }
  on_exit(&finalize_at_exit, nullptr);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_SERIALIZED) {
    return fail("--backend", "mpi", "this MPI was built without threads",
                "using an MPI that offers MPI_THREAD_SERIALIZED", ErrorKind::Unavailable);
  }
  return {};
}

}  // namespace

std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return text.data();
}

Error failed(const std::string& what, int code) {
  return fail("--backend", "mpi", what + ": " + text_of(code),
              "running a small MPI program in this job, or --backend=auto", ErrorKind::Unavailable);
}

Result<void> check_launched() {
  return was_launched() ? Result<void>()
                        : fail("--backend", "mpi", "no MPI launcher started this process",
                               "`srun --mpi=pmix --ddp ... PROGRAM`, `mpirun -n N PROGRAM`, or --backend=auto");
}

Result<void> begin() {
  static const Result<void> begun = initialize();
  return begun;
}

void give_up() { g_given_up = true; }

bool has_given_up() { return g_given_up; }

}  // namespace rollcall::process_group::mpi
