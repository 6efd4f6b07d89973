#include "spank_plugin/options.h"

#include <string_view>

namespace rollcall::spank {
namespace {

// SPANK takes pointers to mutable text and keeps them.
char kName[] = "ddp";
char kArgument[] = "[key=value,...]";
char kUsage[] =
    "give every task a PyTorch rendezvous on this site's network (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, "
    "LOCAL_RANK, "
    "interfaces, ...); key=value,... overrides settings for this step (a comma inside a value is written +), off turns "
    "it off; 'rollcall env' shows the values, 'man rollcall-spank' the rest";

std::optional<std::string> argument_value(std::string_view key, int argument_count, char** arguments) {
  for (int i = 0; i < argument_count; ++i) {
    if (const std::string_view argument = arguments[i]; argument.starts_with(key)) {
      return std::string(argument.substr(key.size()));
    }
  }
  return std::nullopt;
}

}  // namespace

DdpOption parse_option(const char* argument) {
  const std::string_view text = argument == nullptr ? "" : argument;
  if (text.empty() || text == "(null)") {
    return DdpOption{};
  }
  if (text == "off") {
    return DdpOption{.enabled = false, .key_values = ""};
  }
  return DdpOption{.enabled = true, .key_values = std::string(text)};
}

spank_option ddp_option(spank_opt_cb_f callback) {
  constexpr int kOptionalArgument = 2;
  return {kName, kArgument, kUsage, kOptionalArgument, 0, callback};
}

settings::PluginProfile site_profile(int argument_count, char** arguments) {
  return settings::plugin_profile(argument_value("config=", argument_count, arguments).value_or(""),
                                  argument_value("config_owner=", argument_count, arguments).value_or(""));
}

std::optional<std::string> task_prolog(int argument_count, char** arguments) {
  return argument_value("task_prolog=", argument_count, arguments);
}

}  // namespace rollcall::spank
