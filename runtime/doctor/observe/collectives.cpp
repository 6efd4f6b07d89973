#include "runtime/doctor/observe/observe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::doctor {
namespace {

constexpr const char* kProgram = "rollcall-bench-collectives";
constexpr std::chrono::seconds kMargin{30};

/// One size dominated by latency and one by bandwidth; one or two seconds in total.
constexpr std::array kOptions{"--operation=all_reduce",
                              "--min-bytes=1024",
                              "--max-bytes=16777216",
                              "--factor=16384",
                              "--iterations=5",
                              "--warm-up=2",
                              "--json"};

std::vector<std::string> command_of(const std::string& program, const std::vector<std::string>& backends,
                                    const settings::Settings& settings) {
  std::vector<std::string> command{program, fmt::format("--backend={}", fmt::join(backends, ","))};
  command.insert(command.end(), kOptions.begin(), kOptions.end());
  for (const settings::Setting& row : settings.table()) {
    const settings::SettingValue& value = settings.value(row.name);
    if (value.origin.starts_with("--") && value.origin == settings::option_name(row.name)) {
      command.push_back(value.origin + "=" + value.text);
    }
  }
  return command;
}

CollectiveRow row_of(const nlohmann::json& json) {
  return {json.at("backend"),
          json.at("operation"),
          json.at("bytes"),
          json.at("seconds"),
          json.at("bus_bytes_per_second").get<double>() / 1e9,
          json.at("correct")};
}

bool is_error(std::string_view line) {
  return line.starts_with("rollcall: ") && !line.starts_with("rollcall: warning");
}

}  // namespace

std::string bench_program(const Environment& environment) {
  const auto beside = find_in_installation(kProgram).file;
  if (beside && std::filesystem::is_regular_file(*beside)) {
    return beside->string();
  }
  for (const std::string& folder : split(environment.get(env::kPath).value_or(""), ':')) {
    std::string path = folder + "/" + kProgram;
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return "";
}

Collectives read_collectives(const ChildOutput& output) {
  Collectives result;
  for (const std::string& line : split(output.text, '\n')) {
    if (is_error(line) && result.error.empty()) {
      result.error = line.substr(std::string_view("rollcall: ").size());
    }
    if (!line.starts_with("{")) {
      continue;
    }
    try {
      result.rows.push_back(row_of(nlohmann::json::parse(line)));
    } catch (const std::exception&) {
      result.error = "its output cannot be read: " + line;
    }
  }
  if (output.killed) {
    result.error = "did not end in time" + (result.error.empty() ? "" : ": " + result.error);
  } else if (result.error.empty() && result.rows.empty()) {
    result.error = fmt::format("ended with exit code {} and measured nothing", output.exit_code);
  }
  return result;
}

Collectives measure_collectives(const std::string& program, const std::vector<std::string>& backends,
                                const settings::LaunchSettings& settings, const Environment& environment) {
  const Result<ChildOutput> output =
      run_and_capture(command_of(program, backends, settings.given), environment,
                      {.patience = settings.rendezvous_timeout + kMargin, .alone = true});
  return output ? read_collectives(*output) : Collectives{"", output.error().reason, {}};
}

}  // namespace rollcall::doctor
