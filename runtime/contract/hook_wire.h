#pragma once

#include <cstdint>

// The protocol between the SPANK plugin and its helper program, `rollcall spank-hook VERSION`, on a socket. A frame has
// a kind, a length in this machine's byte order, and the payload. The plugin sends one request after the other, and the
// program answers each. The plugin links only libc, so this header defines constants only.
namespace rollcall::hook {

inline constexpr char kCommand[] = "spank-hook";

/// The protocol's number changes with every change of the messages, including names and values of items. Plugin and
/// program work together where their numbers are equal, whatever their versions, so that nodes can be upgraded one by
/// one. Both state their version as "0.1.0 (protocol 1)". `rollcall install` searches for this text in both files; it
/// is not a constant, so that the compiler keeps it.
[[gnu::used]] inline char g_mark[] = "rollcall-hook (protocol 1)";
inline const char* protocol() { return g_mark + sizeof "rollcall-hook"; }

inline constexpr int kSocket = 3;  ///< the program's file descriptor for the socket
inline constexpr int kShared = 4;  ///< its descriptor for the memory that a node's tasks share, with item "shared"

/// A variable that the program in srun, the plugin and the program on the nodes pass on; tasks do not get it. kWanted
/// asks for the address by which Slurm reaches the node of rank 0. The plugin replaces it by "NODE ADDRESS" when srun
/// has created the step.
inline constexpr char kHeadAddress[] = "SLURM_ROLLCALL_HEAD_ADDRESS";
inline constexpr char kWanted[] = "?";

/// The size of the memory that the tasks of a node share. Its first four bytes say whether a task reports for the node.
inline constexpr std::uint32_t kSharedSize = std::uint32_t{64} << 10;

struct [[gnu::packed]] Header {
  char kind;
  std::uint32_t size;
};

// The frames of a request: the environment, the data from SPANK, and then the hook's name.
inline constexpr char kVariable = 'v';  ///< "NAME=VALUE"; the first one of a name counts, as for getenv(3)
inline constexpr char kItem = 'i';      ///< "name=value"
inline constexpr char kHook = 'h';      ///< the hook's name; ends the request
inline constexpr char kReply = 'r';     ///< the reply to a question of the program; empty: unknown

// The frames of an answer.
inline constexpr char kVersion = 'V';     ///< the program's version and protocol; the first frame
inline constexpr char kSet = 's';         ///< "NAME=VALUE"
inline constexpr char kUnset = 'u';       ///< "NAME"
inline constexpr char kNote = 'n';        ///< a line for slurm_spank_log
inline constexpr char kError = 'e';       ///< a line for slurm_error
inline constexpr char kPatience = 'p';    ///< the time limit of this answer, in decimal seconds from its begin
inline constexpr char kAskLayout = 'l';   ///< "JOB STEP": asks slurmctld for the tasks of each node
inline constexpr char kAskAddress = 'a';  ///< "NODE": asks for the address by which Slurm reaches it
inline constexpr char kEnd = 'x';         ///< exit code in decimal, 0: continue; ends the answer

inline constexpr std::uint32_t kLongestFrame = std::uint32_t{4} << 20;    ///< a variable has at most 128 KiB
inline constexpr std::uint32_t kLongestAnswer = std::uint32_t{16} << 20;  ///< the sum of its frames

}  // namespace rollcall::hook
