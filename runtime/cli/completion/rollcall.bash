# Completion of rollcall and its programs in bash. No program is started: the options are in the table below.
# Made by CMake from runtime/cli/completion. A row: PAGE|WORD|VALUES|CLAUSE (runtime/command_line/help.h).
IFS= read -r -d '' _rollcall_table << 'END'
@ROLLCALL_COMPLETION_TABLE@END

# Prints the words that may stand at the cursor. Arguments: the words before it, then the word at the cursor.
_rollcall_words() {
  local words=("${@:1:$#-1}") word=${*: -1} rows=$'\n'$_rollcall_table page other row_of name values _
  words[0]=${words[0]##*/}
  # `rollcall train` is rollcall-train.
  if [[ ${words[0]} == rollcall && $rows == *$'\n'"rollcall-${words[1]}|"* ]]; then
    words=("rollcall-${words[1]}" "${words[@]:2}")
  fi
  page=${words[0]}
  if [[ ${words[1]} == [^-]* && $rows == *$'\n'"$page help|"* ]]; then  # one with commands
    page+=" ${words[1]}"
  fi
  other=$page
  while IFS='|' read -r row_of name values _; do
    if [[ $row_of != "$page" && $row_of != "$other" ]]; then
      continue
    elif [[ $name == +* ]]; then
      other=${name#+}
    elif [[ $name == "${words[-1]}=" || ${words[-1]} == "${name%=}=" ]]; then  # its value
      printf '%s\n' $values
      return
    elif [[ $name == -* && $word == -* ]] || [[ $name != -* && $word != -* && $page == "${words[*]}" ]]; then
      printf '%s\n' "$name"
    fi
  done <<< "$_rollcall_table"
}

_rollcall() {
  local IFS=$' \t\n' words=() word=${COMP_WORDS[COMP_CWORD]} i choices
  COMPREPLY=()
  # Bash passes "--debug=o" as three words: here it is "--debug=", then "o".
  for ((i = 0; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == = ]]; then
      words[-1]+='='
    else
      words+=("${COMP_WORDS[i]}")
    fi
  done
  if [[ $word == = ]]; then
    words[-1]+='=' word=
  fi
  if [[ " ${words[*]} " == *' -- '* ]]; then  # the command line of a program
    compopt -o filenames  # quotes what a shell would run
    mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
    return
  fi
  choices=$(_rollcall_words "${words[@]}" "$word")
  COMPREPLY=($(compgen -W "${choices//\//}" -- "$word"))
  if [[ ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace
  elif [[ $choices == */* ]]; then
    compopt -o filenames
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o default -F _rollcall rollcall @ROLLCALL_PROGRAMS@
