#include "runtime/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/settings/launch_settings.h"

namespace rollcall::cli {
namespace {

using settings::Kind;
using settings::Setting;

// Bash splits words at '=' (COMP_WORDBREAKS), so it passes "--debug=o" as three words.
constexpr std::string_view kFunction = R"bash(
_rollcall() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} option= i
  COMPREPLY=()
  if ((COMP_CWORD > 1)) && [[ " $(_rollcall_commands) " != *" ${COMP_WORDS[1]} "* ]]; then
    type -P "rollcall-${COMP_WORDS[1]}" > /dev/null || return
    COMP_WORDS=("rollcall-${COMP_WORDS[1]}" "${COMP_WORDS[@]:2}")
    ((COMP_CWORD -= 1))
    _rollcall_program
    return
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -- ]] && { COMPREPLY=($(compgen -c -f -- "$word")); return; }
  done
  if [[ $before == = ]]; then
    option=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $word == = ]]; then
    option=$before word=
  fi
  if [[ -n $option ]]; then
    COMPREPLY=($(compgen -W "$(_rollcall_values "$option")" -- "$word"))
    return
  fi
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(_rollcall_options "${COMP_WORDS[1]}")" -- "$word"))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  elif ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "$(_rollcall_commands) $(_rollcall_programs)" -- "$word"))
  elif [[ ${COMP_WORDS[1]} == help ]] && ((COMP_CWORD == 2)); then
    COMPREPLY=($(compgen -W "$(_rollcall_commands) $(_rollcall_programs) settings" -- "$word"))
  fi
}
complete -o default -F _rollcall rollcall
)bash";

/// Bash functions that complete rollcall-train, rollcall-pack and the other programs, each by itself and as `rollcall
/// NAME`. They read the options from the program's own `--help=all`, once in a shell: this program does not know them.
constexpr std::string_view kProgramFunctions =
    R"bash(declare -A _rollcall_help_texts
_rollcall_help() {
  [[ ${_rollcall_help_texts[$*]+x} ]] || _rollcall_help_texts[$*]=$("$@" --help=all 2> /dev/null < /dev/null)
  printf '%s\n' "${_rollcall_help_texts[$*]}"
}
_rollcall_programs() { compgen -c rollcall- | sed 's/^rollcall-//' | sort -u | tr '\n' ' '; }
_rollcall_program() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} asked=("${COMP_WORDS[0]}") option= commands words
  COMPREPLY=()
  _rollcall_help "${asked[@]}" > /dev/null  # here, as a text that a subshell reads is lost with it
  commands=$(_rollcall_help "${asked[@]}" | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p')
  if [[ -n $commands ]]; then
    if ((COMP_CWORD == 1)) && [[ $word != -* ]]; then
      COMPREPLY=($(compgen -W "$commands" -- "$word"))
      return
    fi
    [[ ${COMP_WORDS[1]} == -* ]] || asked+=("${COMP_WORDS[1]}")
    _rollcall_help "${asked[@]}" > /dev/null
  fi
  if [[ $before == = ]]; then
    option=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $word == = ]]; then
    option=$before word=
  fi
  if [[ -n $option ]]; then
    words=$(_rollcall_help "${asked[@]}" | sed -nE "s/^  (-., )?$option\[?=([^] ]*\|[^] ]*).*/\2/p;T;q" | tr '|' ' ')
    COMPREPLY=($(compgen -W "${words:-$(_rollcall_values "$option")}" -- "$word"))
  elif [[ $word == -* ]]; then
    words=$(_rollcall_help "${asked[@]}" | sed -nE 's/^  (-., )?(--[a-z][a-z-]*=?).*/\2/p')
    [[ $(_rollcall_help "${asked[@]}") == *"rollcall help settings"* ]] && words+=" $(_rollcall_settings)"
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  fi
}
)bash";

std::string options_of(std::span<const command_line::Flag> flags, settings::Table table) {
  std::string words;
  for (const command_line::Flag& flag : flags) {
    words += fmt::format("--{} ", flag.name);
  }
  for (const Setting& setting : table) {
    words += settings::option_name(setting.name) + (setting.kind == Kind::Switch ? " " : "= ");
  }
  words.pop_back();
  return words;
}

std::string values_of(const Setting& setting) {
  std::string words(setting.kind == Kind::Switch ? "on|off" : "");
  words += words.empty() || setting.words().empty() ? "" : "|";
  words += setting.words();
  std::ranges::replace(words, '|', ' ');
  return words;
}

/// Returns the branches of a shell's `case` that print the values of an option.
std::string value_cases(settings::Table table, bool switches_take_values = true) {
  std::string cases;
  for (const Setting& setting : table) {
    const bool takes_value = setting.kind != Kind::Switch || switches_take_values;
    if (const std::string words = takes_value ? values_of(setting) : ""; !words.empty()) {
      fmt::format_to(std::back_inserter(cases), "    {}) echo '{}' ;;\n", settings::option_name(setting.name), words);
    }
  }
  return cases;
}

}  // namespace

std::string bash_completion() {
  std::string commands = "help";
  std::string programs;
  std::string options;
  std::string values = value_cases(settings::launch_table());
  for (const Command& command : all_commands()) {
    const bool takes_launch_settings = command.run_whole == nullptr;
    commands += fmt::format(" {}", command.name);
    fmt::format_to(std::back_inserter(options), "    {}) echo \"{}{}\" ;;\n", command.name,
                   options_of(command.flags, command.table), takes_launch_settings ? " $(_rollcall_settings)" : "");
    values += value_cases(command.table, takes_launch_settings);
  }
  for (const Program& program : all_programs()) {
    programs += fmt::format(" rollcall-{}", program.name);
  }
  return fmt::format(
      "# bash completion of rollcall, printed by `rollcall completion bash`\n"
      "_rollcall_commands() {{ echo '{}'; }}\n"
      "_rollcall_settings() {{ echo '{}'; }}\n"
      "_rollcall_options() {{\n  case $1 in\n{}    *) echo \"{} $(_rollcall_settings)\" ;;\n  esac\n}}\n"
      "_rollcall_values() {{\n  case $1 in\n{}  esac\n}}\n{}{}complete -o default -F _rollcall_program{}\n",
      commands, options_of({}, settings::launch_table()), options, options_of(program_flags(), {}), values,
      kFunction.substr(1), kProgramFunctions, programs);
}

Result<void> run_completion(CommandContext& context) {
  const std::vector<std::string>& shells = context.line.positional;
  if (shells.size() != 1 || shells.front() != "bash") {
    return fail("completion", shells.empty() ? "" : shells.front(), "is for bash only", "rollcall completion bash");
  }
  context.out << bash_completion();
  return {};
}

}  // namespace rollcall::cli
