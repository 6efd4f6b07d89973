#pragma once

#include <chrono>

/// Time limits for waiting for other processes of the step after a task or rank has failed. They never decide which
/// rank failed first; they only end waits that no event ends.
namespace rollcall::deadline {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Before the rendezvous. When the first task ends, Slurm ends the others.

/// Rank 0, which reports an error common to all ranks, waits this long before it ends, so that ranks that start later
/// reach the same error.
inline constexpr milliseconds kCommonErrorDelay{300};
/// A task that has reported an error of its node stays alive this long: as long as it lives, the other tasks of the
/// node see that the error has been reported.
inline constexpr milliseconds kNodeErrorDelay{1000};
/// A task that leaves the report to another task waits this long: under srun --kill-on-bad-exit its own end could end
/// that task first. Slurm's SIGTERM ends the wait once that task has ended; on a busy node that may take seconds.
inline constexpr seconds kOtherTaskReports{15};
/// The same for the small programs, whose tasks start within less time of each other. Without --kill-on-bad-exit no
/// signal comes, and the step ends that much later.
inline constexpr seconds kRankZeroReports{5};

// During training.

/// After a peer's process has ended, Gloo gets this long to read the data that the peer sent before.
inline constexpr milliseconds kDrainEndedPeer{100};
/// Gloo gets this long to read where it is unknown which peer was lost, or whether it left in an orderly way.
inline constexpr seconds kDrainLostPeer{1};
/// The store is asked whether a peer left in an orderly way. It answers within milliseconds unless rank 0 has stopped.
inline constexpr seconds kPeerStatusQuery{2};
/// The watchdog writes its report to the store.
inline constexpr seconds kWatchdogReport{1};
/// All ranks close the connections of their devices together; one of the ranks may have ended meanwhile.
inline constexpr seconds kDeviceShutdown{5};

// While rollcall's own backends close a group.

/// After a UCX endpoint broke, the peer's last message may still arrive: over TCP it may use another connection.
inline constexpr milliseconds kBrokenEndpointGrace{10};
/// A leaving rank waits until all peers have read its message over UCX, because closing earlier could discard it. A
/// peer that hangs never reads it.
inline constexpr milliseconds kGracefulClose{300};
/// A failed rank waits this long until its peers have read its message, and then closes its endpoints by force.
inline constexpr milliseconds kFailureClose{100};
/// UCX endpoints are closed by force, together with their pending operations.
inline constexpr seconds kForcedClose{2};
/// A leaving MPI rank waits for the others at the final barrier of its group, and abandons the barrier without them.
inline constexpr milliseconds kFinalBarrier{300};

// When a world ends.

/// The store is asked for the cause of a failure. Rank 0 may have stopped.
inline constexpr seconds kStoreQuery{5};
/// Rank 0 serves the store until all ranks have left. A stopped rank or an unreachable node neither announces that nor
/// closes its connection.
inline constexpr seconds kOthersDisconnect{10};
/// A rank that lost a peer destroys its process groups. Gloo's destructor may wait for a collective with that peer
/// until the collective times out.
inline constexpr seconds kGroupShutdown{2};
/// A rank whose device failed releases it. The driver may never return.
inline constexpr seconds kFailedDeviceShutdown{15};
/// A surviving rank finishes its running save. Its agent allows --shutdown-timeout, 30 s by default.
inline constexpr seconds kFinishSave{15};
/// A surviving rank that lost a peer waits for the agents to notice that a process has ended, and else reports an
/// error.
inline constexpr seconds kAgentsNoticeFailure{5};
/// It then waits until the agents have agreed that the generation is over.
inline constexpr seconds kAgentsEndGeneration{60};

}  // namespace rollcall::deadline
