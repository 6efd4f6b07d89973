#include "runtime/network/host_name.h"

namespace rollcall::network {

std::vector<std::string> candidate_names(std::string_view host_template, std::string_view host) {
  constexpr std::string_view kPlaceholder = "{host}";
  std::string name(host_template);
  std::size_t at = name.find(kPlaceholder);
  const bool about_host = at != std::string::npos;
  while (at != std::string::npos) {
    name.replace(at, kPlaceholder.size(), host);
    at = name.find(kPlaceholder, at + host.size());
  }
  std::vector<std::string> names;
  if (!name.empty() && !(about_host && host.empty())) {
    names.push_back(name);
  }
  if (!host.empty() && name != host) {
    names.emplace_back(host);
  }
  return names;
}

}  // namespace rollcall::network
