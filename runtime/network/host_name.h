#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rollcall::network {

/// The names under which `host` may be reached, best first: `host_template` with every "{host}" replaced, then the
/// plain name, without duplicates. An empty host gives none, except from a template without "{host}". Pure.
[[nodiscard]] std::vector<std::string> candidate_names(std::string_view host_template, std::string_view host);

}  // namespace rollcall::network
