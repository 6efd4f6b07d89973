#pragma once

#include <chrono>

/// How long a process waits for others of its step where a task or a rank has failed, each with its reason. Who failed
/// first is never decided by these: they end waits of which nothing else says that they are over.
namespace rollcall::deadline {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Before the ranks know each other. The first task that ends has Slurm end the others.

/// A rank that is not to tell what all see alike: those that start later than it need so long to come to it, too.
inline constexpr milliseconds kSameFailure{300};
/// The task that has told what others of its node may have as well: they see that it has, as long as it lives.
inline constexpr milliseconds kSameFailureOnNode{1000};
/// A task under `srun --ddp` that is not to tell. Where another one has told and ended, Slurm's SIGTERM ends this wait;
/// on a busy node that one may be slower by seconds.
inline constexpr seconds kOtherTaskTells{15};

// While they train.

/// A Gloo that waits for a peer whose process has ended: what came from it before has been read by then.
inline constexpr milliseconds kEndedPeerIsRead{100};
/// The same where nobody can say whether it left in good order, or who is lost, only that somebody is.
inline constexpr seconds kLostPeerIsRead{1};
/// A store that is asked whether a peer left in good order. It answers within milliseconds, unless rank 0 has stopped.
inline constexpr seconds kWordOfPeer{2};
/// The watchdog's last word to the store, likewise.
inline constexpr seconds kLastWord{1};
/// Connections of devices, which all ranks let go of together: one of them may have ended meanwhile.
inline constexpr seconds kDevicesLetGo{5};

// While backends of ours close a group.

/// A peer over UCX whose endpoint broke: over TCP its last message may come by another connection than that one.
inline constexpr milliseconds kEndpointIsJudged{10};
/// A rank over UCX that leaves: to close before all have read so could take it from them. A peer that hangs never does.
inline constexpr milliseconds kGoodbyeIsRead{300};
/// The same of one that has failed, and then until its endpoints are closed by force.
inline constexpr milliseconds kFailureIsRead{100};
/// Its endpoints, which are closed with all that is under way.
inline constexpr seconds kEndpointsClose{2};
/// A rank over MPI that leaves, for the others to come to the group's last barrier: where they do not, it stays behind.
inline constexpr milliseconds kLastBarrier{300};

// When a world ends.

/// A store that is asked what the cause is. Rank 0 may be stopped.
inline constexpr seconds kStoreAnswers{5};
/// Rank 0, which serves the store, for ranks that neither say that they leave nor close their connections: they are
/// stopped, or their node has fallen silent.
inline constexpr seconds kOthersLeave{10};
/// A rank whose peer was lost lets go of its groups. Gloo now and then holds on to a collective whose peer is gone
/// until it times out, and its destructor waits for that.
inline constexpr seconds kGroupsGo{2};
/// A rank whose device fails: a driver may hold what it was given for ever.
inline constexpr seconds kDeviceGoes{15};
/// A rank that lives on finishes a save that is under way; its agent gives it --shutdown-timeout, 30 s by default.
inline constexpr seconds kSaveEnds{15};
/// A rank that lives on and has lost a peer: agents notice whatever has ended by then, else it complains.
inline constexpr seconds kAgentsNotice{5};
/// And then until they have agreed that the generation is over.
inline constexpr seconds kAgentsAgree{60};

}  // namespace rollcall::deadline
