#pragma once

#include <cstdint>

// What the SPANK plugin and the program that its hooks run, `rollcall spank-hook VERSION`, say to each other on a
// socket: frames of a kind, a length in this machine's order of bytes, and so many bytes. The plugin asks, one request
// after the other, and the program answers each. Read by the plugin, too, which links libc alone: no more than
// constants.
namespace rollcall::hook {

inline constexpr char kCommand[] = "spank-hook";

/// Raised with every change of what one of the two says or expects here, in names and values of items too. Plugin and
/// program work together where they have the same one, whatever their versions: while nodes are upgraded some have one
/// and some the other. Both give their version as "0.1.0 (protocol 1)". `rollcall install` looks for the text in the
/// bytes of both: no constant, so that it is what they compare.
[[gnu::used]] inline char g_mark[] = "rollcall-hook (protocol 1)";
inline const char* protocol() { return g_mark + sizeof "rollcall-hook"; }

inline constexpr int kSocket = 3;  ///< the program's descriptor of the socket
inline constexpr int kShared = 4;  ///< of what the tasks of a node share; with item "shared" only

/// A variable between srun's program, its plugin and the nodes' program; no task has it. kWanted: this step's nodes are
/// to know by which address Slurm reaches rank 0's node. The plugin puts "NODE ADDRESS" there once srun has the step.
inline constexpr char kHeadAddress[] = "SLURM_ROLLCALL_HEAD_ADDRESS";
inline constexpr char kWanted[] = "?";

/// What the tasks of a node share: memory whose first four bytes say whether one of them speaks for the node.
inline constexpr std::uint32_t kSharedSize = std::uint32_t{64} << 10;

struct [[gnu::packed]] Header {
  char kind;
  std::uint32_t size;
};

// Of a request: the environment and what SPANK tells, then the question itself, the hook's name.
inline constexpr char kVariable = 'v';  ///< "NAME=VALUE"; the first of a name counts, as for getenv(3)
inline constexpr char kItem = 'i';      ///< "name=value"
inline constexpr char kHook = 'h';      ///< the hook's name; ends the request
inline constexpr char kReply = 'r';     ///< to a question; empty: there is no answer

// Of an answer.
inline constexpr char kVersion = 'V';     ///< the program's, with its protocol; before everything else
inline constexpr char kSet = 's';         ///< "NAME=VALUE"
inline constexpr char kUnset = 'u';       ///< "NAME"
inline constexpr char kNote = 'n';        ///< a line for slurm_spank_log
inline constexpr char kError = 'e';       ///< a line for slurm_error
inline constexpr char kPatience = 'p';    ///< seconds, in decimal: how long this answer may take, from its beginning
inline constexpr char kAskLayout = 'l';   ///< "JOB STEP": which tasks are on which node, as slurmctld knows it
inline constexpr char kAskAddress = 'a';  ///< "NODE": by which address Slurm reaches it
inline constexpr char kEnd = 'x';         ///< exit code in decimal, 0: go on; ends the answer

inline constexpr std::uint32_t kLongestFrame = std::uint32_t{4} << 20;    ///< a variable has at most 128 KiB
inline constexpr std::uint32_t kLongestAnswer = std::uint32_t{16} << 20;  ///< all frames of one

}  // namespace rollcall::hook
