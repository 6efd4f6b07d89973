#include "trainer/distributed/process_group/collective_call.h"

#include <array>
#include <cstdio>

namespace rollcall::process_group {
namespace {

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    unit += 1;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits.at(unit));
  return text.data();
}

std::string with_comma(const std::string& text) { return text.empty() ? "" : ", " + text; }

std::string what(const CollectiveCall& call) {
  return call.type + (call.sizes.empty() ? "" : " " + call.sizes) + with_comma(call.details);
}

}  // namespace

std::string signature(const CollectiveCall& call) {
  return call.type.empty() ? call.operation : call.operation + " of " + what(call);
}

std::string to_text(const CollectiveCall& call) {
  const std::string name = call.operation + " " + std::to_string(call.number);
  return call.type.empty() ? name : name + " (" + what(call) + ", " + bytes_text(call.bytes) + ")";
}

}  // namespace rollcall::process_group
