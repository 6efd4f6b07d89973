#include "runtime/cli/program_completion.h"

namespace rollcall::cli {

std::string_view program_completion() {
  return R"bash(declare -A _rollcall_help_texts
_rollcall_help() {
  [[ ${_rollcall_help_texts[$*]+x} ]] || _rollcall_help_texts[$*]=$("$@" --help 2> /dev/null < /dev/null)
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
    words=$(_rollcall_help "${asked[@]}" | sed -nE "s/^  (-., )?$option\[?=([^] ]*\|[^] ]*).*/\2/p" | tr '|' ' ')
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  elif [[ $word == -* ]]; then
    words=$(_rollcall_help "${asked[@]}" | sed -nE 's/^  (-., )?(--[a-z][a-z-]*=?).*/\2/p')
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  fi
}
complete -o default -F _rollcall_program rollcall-train rollcall-pack rollcall-checkpoint \
  rollcall-bench-collectives
)bash";
}

}  // namespace rollcall::cli
