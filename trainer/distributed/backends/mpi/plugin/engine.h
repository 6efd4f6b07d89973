#pragma once

#include <mpi.h>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/distributed/backends/engine/engine.h"

namespace rollcall::process_group::mpi {

/// A started MPI operation. The object must not move until the request is complete.
struct Started {
  MPI_Request request = MPI_REQUEST_NULL;  ///< MPI_REQUEST_NULL if it is complete at once
  std::string refusal;                     ///< why it was not started; empty if it was
  std::vector<int> counts;                 ///< for an all-to-all; MPI reads them until its end
};

/// Starts `collective` on `communicator` with MPI's non-blocking function. Call it with mpi_mutex() held, in the same
/// order on all ranks. Refuses a part of more than 2^31 - 1 elements, MPI's limit.
void start(const Collective& collective, MPI_Comm communicator, Started& started);

/// Runs a group's operations with MPI's non-blocking collectives, each as soon as it is submitted. MPI
/// progresses only while it is called, and has no descriptor to wait for: the thread polls it, and sleeps briefly in
/// between once nothing has ended for a while, so that the computation keeps its cores.
///
/// MPI can neither cancel a collective nor continue without a rank. So MPI is not used in this process after the first
/// failure, and the memory of pending operations stays allocated until the process ends.
class Engine final : public process_group::Engine {
 public:
  /// Takes ownership of `communicator`, whose errors are returned and whose ranks are the engine's.
  explicit Engine(MPI_Comm communicator);
  ~Engine() override;

  /// If nothing is pending, waits for all other ranks for at most 300 ms: so a rank does not leave before others have
  /// what they need of it.
  void shutdown() override;

  void submit(Operation operation) override { submissions_.submit(std::move(operation)); }
  /// Does nothing: the engine's thread needs no help.
  void help_until(const std::function<bool()>& /*done*/) override {}
  void abort(const std::string& reason) override { submissions_.abort(reason); }
  [[nodiscard]] bool has_failed() const override { return failed_.load(std::memory_order_acquire); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running;

  void run();
  bool take_new();
  void begin(Operation operation);
  bool test_all();
  [[nodiscard]] bool test(Running& running);
  void check_timeouts();
  void wait_a_little();
  void fail_all(const std::string& reason);
  void leave();

  MPI_Comm communicator_;

  Submissions submissions_;
  std::atomic<bool> failed_{false};

  // Used only by the engine's thread.
  std::vector<std::unique_ptr<Running>> running_;
  std::string failure_;  ///< why no operation is started any more; empty before a failure
  std::uint64_t collectives_ = 0;
  Clock::time_point active_{};  ///< when MPI last made progress

  std::thread thread_;
};

}  // namespace rollcall::process_group::mpi
