#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rollcall::process_group {

/// What a rank answers when the others ask where it is.
struct Whereabouts {
  std::uint64_t issued = 0;  ///< number of the last collective that it began; 0: none
  std::uint64_t ended = 0;   ///< of the last one that ended
  std::string last;          ///< to_text() of the last one that it began
};

[[nodiscard]] std::string serialise(const Whereabouts& whereabouts);
[[nodiscard]] std::optional<Whereabouts> parse_whereabouts(const std::string& text);

/// Says who holds up collective `number`, from every rank's answer (nothing: it gave none): "rank 2 has not arrived: it
/// is busy elsewhere, and its last collective was all-reduce 40 (float32 [10], sum, 40 B)"; "rank 3 does not answer: it
/// is stopped or lost". Names at most eight ranks. Pure.
[[nodiscard]] std::string who_is_missing(std::uint64_t number, const std::vector<std::optional<Whereabouts>>& answers);

}  // namespace rollcall::process_group
