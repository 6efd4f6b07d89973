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

/// What MPI was asked to do. Stays where it is until the request is complete.
struct Started {
  MPI_Request request = MPI_REQUEST_NULL;  ///< complete at once
  std::string refusal;                     ///< why it was not begun; empty: it was
  std::vector<int> counts;                 ///< of an all-to-all; MPI reads them until the end
};

/// Begins `collective` on `communicator` by MPI's own non-blocking one. Call with mpi_mutex() held, in the same order
/// on all ranks. Refused: a part of more than 2^31 - 1 elements, the most that MPI counts.
void start(const Collective& collective, MPI_Comm communicator, Started& started);

/// Begins a message likewise; of at most 2^31 - 1 bytes.
void start(const PointToPoint& message, MPI_Comm communicator, Started& started);

/// Runs a group's operations by MPI's own non-blocking collectives and messages, all of them as soon as they are
/// submitted. MPI makes progress only while it is called, and has nothing to wait on: the thread asks it again and
/// again, and naps in between once nothing has ended for a while, so that the computation keeps its cores.
///
/// MPI can neither take back a collective nor go on without a rank. So the first failure is MPI's last use in this
/// process, and the memory of what was under way stays allocated until the process ends.
class Engine final : public process_group::Engine {
 public:
  /// Takes `communicator` over; its errors are returned. Ranks are those of it.
  explicit Engine(MPI_Comm communicator);
  ~Engine() override;

  /// With all other ranks where nothing is pending: at most 300 ms. A rank that holds what the others still need then
  /// cannot be ahead of them.
  void shutdown() override;

  void submit(Operation operation) override { submissions_.submit(std::move(operation)); }
  /// Nobody can: the thread goes on alone.
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
  void end(const Running& running, int code, const MPI_Status& status);
  void check_timeouts();
  void wait_a_little();
  void fail_all(const std::string& reason);
  void leave();

  MPI_Comm communicator_;

  Submissions submissions_;
  std::atomic<bool> failed_{false};

  // Of the engine's thread alone.
  std::vector<std::unique_ptr<Running>> running_;
  std::string failure_;  ///< why nothing is begun any more
  std::uint64_t collectives_ = 0;
  Clock::time_point active_{};  ///< when MPI did something last

  std::thread thread_;
};

}  // namespace rollcall::process_group::mpi
