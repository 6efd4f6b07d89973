#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/distributed/processes/rank_names.h"

namespace rollcall::process_group {

/// What a rank answers when the others ask where it is.
struct Whereabouts {
  std::uint64_t issued = 0;  ///< number of the last collective that it began; 0: none
  std::uint64_t ended = 0;   ///< of the last one that ended
  std::string last;          ///< to_text() of the last one that it began
};

/// What is known of a rank.
struct Attendance {
  enum Presence {
    Silent,   ///< it gave no answer, and nobody knows why
    Stopped,  ///< it gave no answer, but its process lives
    Here,     ///< it answered with its whereabouts
    Left,     ///< it has left the group in good order, after these whereabouts
    Ended,    ///< its process has ended, and it said nothing before
    GaveUp,   ///< it has left the group since it, or another of its groups, has failed
  };

  Presence presence = Silent;
  Whereabouts whereabouts;  ///< of Here, Left and GaveUp
  std::string reason{};     ///< of GaveUp, in one line
};

/// How long a rank that asks waits for answers where nobody is known to be gone.
struct Allowance {
  std::chrono::milliseconds for_one;   ///< where all others have answered: one rank may be lost
  std::chrono::milliseconds for_many;  ///< where more are silent, or one whose process lives: the machines are busy

  bool operator==(const Allowance&) const = default;
};

/// What suits a group in which each rank looks every `interval` whether somebody asks. Pure.
[[nodiscard]] Allowance allowance_of(std::chrono::milliseconds interval);

/// How long after the question an answer of `ranks` may still come; 0 where none is awaited. Pure.
[[nodiscard]] std::chrono::milliseconds patience(const std::vector<Attendance>& ranks, const Allowance& allowance);

/// Whether an answer of this rank may still come.
[[nodiscard]] bool is_awaited(const Attendance& rank);

[[nodiscard]] std::string serialise(const Attendance& attendance);
[[nodiscard]] std::optional<Attendance> parse_attendance(const std::string& text);

/// Says who holds up collective `number`; `ranks` by rank, `names` are theirs: "rank 2 has not arrived: it is busy
/// elsewhere, and its last collective was all-reduce 40 (float32 [10], sum, 40 B)"; "rank 3 does not answer: it is
/// stopped or lost". Names at most eight ranks. Pure.
[[nodiscard]] std::string who_is_missing(std::uint64_t number, const std::vector<Attendance>& ranks,
                                         const RankNames& names = {});

/// Says who will certainly never come to collective `number`: "rank 3 is lost: its process ended". Empty: nobody of
/// whom that is known. Names at most eight ranks. Pure.
[[nodiscard]] std::string who_is_gone(std::uint64_t number, const std::vector<Attendance>& ranks,
                                      const RankNames& names = {});

}  // namespace rollcall::process_group
