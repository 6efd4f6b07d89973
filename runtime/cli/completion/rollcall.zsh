#compdef rollcall -P rollcall-*
# Completion of rollcall and its programs in zsh. No program is started: the options are in the table below.
# Made by CMake from runtime/cli/completion. A row: PAGE|WORD|VALUES|CLAUSE (runtime/command_line/help.h).
IFS= read -r -d '' _rollcall_table << 'END'
@ROLLCALL_COMPLETION_TABLE@END

_rollcall_values() {
  compadd -- ${argv:#/}
  (( ! $argv[(Ie)/] )) || _files
}

_rollcall() {
  local rows=$'\n'$_rollcall_table page other row_of name values clause
  local -a specs names
  words[1]=${words[1]:t}
  # `rollcall train` is rollcall-train.
  if [[ CURRENT -gt 2 && $words[1] == rollcall && $rows == *$'\n'"rollcall-$words[2]|"* ]]; then
    words=("rollcall-$words[2]" "${(@)words[3,-1]}")
    (( CURRENT-- ))
  fi
  page=$words[1]
  if [[ CURRENT -gt 2 && $words[2] != -* && $rows == *$'\n'"$page help|"* ]]; then  # one with commands
    page+=" $words[2]"
    words=("$page" "${(@)words[3,-1]}")
    (( CURRENT-- ))
  fi
  other=$page
  while IFS='|' read -r row_of name values clause; do
    [[ $row_of == $page || $row_of == $other ]] || continue
    clause=${${clause//\[/\\[}//\]/\\]}
    case $name in
      +*) other=${name#+} ;;
      --*=) specs+=("${name}[$clause]:value: _rollcall_values $values") ;;
      --*) specs+=("${name}${values:+=-}[$clause]${values:+::value: _rollcall_values $values}") ;;
      *) names+=("$name:$clause") ;;
    esac
  done <<< $_rollcall_table
  if (( $#names )); then
    specs+=('1: :{_describe word names}')
  fi
  if [[ $page == 'rollcall exec' ]]; then
    specs+=('*:::program:_normal')
  else
    specs+=('*:file:_files')
  fi
  _arguments -S : $specs
}

if [[ $funcstack[1] == _rollcall ]]; then  # loaded from fpath, to be called at once
  _rollcall "$@"
else
  compdef _rollcall rollcall -P 'rollcall-*'
fi
