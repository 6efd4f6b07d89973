#!/usr/bin/env bash
# shellcheck disable=SC2034  # failed_stage and planned are read by those who source this
# Stages of a command that takes minutes: sourced by scripts/quickstart and scripts/test.
#
#   plan NAME SECONDS         announces a stage, and how long it takes on two quiet cores
#   stage NAME COMMAND...     runs it with its output in $stage_logs/NAME.log, and says every second on a terminal, else twice a minute, how
#                             far it is: "3 of 9: build, 41 %, about 4 min left". A stage that fails shows the end of its log.
#   stage_in_sight NAME COMMAND...   runs it as it is, for what may ask for a password
#   stage_table               what each stage took
#   configure PRESET          cmake --preset, also where another compiler configured its folder before
#
# How far a stage is comes from the last "[12/345]" (ninja) or "12/345 Test" (ctest) in its log. Tests differ too much for their number to
# tell how long the others take.

stage_logs=${stage_logs:-build/logs}
exec {stage_clock}<> <(:)  # nobody writes to it: what waits for it waits for time, without a process for each second
stage_names=() stage_seconds=()
stage_pid='' failed_stage=''
# A stage has a process group of its own, which signals to this process alone do not reach.
trap 'end_stage; exit 130' INT
trap 'end_stage; exit 143' HUP TERM

end_stage() {
  [ -n "$stage_pid" ] || return 0
  kill -INT -- "-$stage_pid" 2> /dev/null || true
  wait "$stage_pid" || true
}

declare -A planned_seconds
planned=()

plan() {
  planned+=("$1")
  planned_seconds[$1]=$2
}

# percent_of LOG: nothing where the log does not tell
percent_of() {
  local counted
  counted=$(tail -c 4000 "$1" 2> /dev/null | grep -oE '\[[0-9]+/[0-9]+\]|[0-9]+/[0-9]+ Test' | tail -n 1) || return 0
  [[ $counted =~ ([0-9]+)[^0-9]+([0-9]+) ]] || return 0
  [ "${BASH_REMATCH[2]}" -gt 0 ] && echo $((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
}

# seconds_left NAME SECONDS PERCENT: of this stage and those after it. What the stages before took tells how fast this machine is.
seconds_left() {
  local name=$1 seconds=$2 percent=$3 expected=0 took=0 left=0 index after=0
  for index in "${!stage_names[@]}"; do
    took=$((took + stage_seconds[index]))
    expected=$((expected + ${planned_seconds[${stage_names[$index]}]:-0}))
  done
  if [ "${percent:-0}" -ge 10 ] && [ "${percent_counts_time:-1}" = 1 ]; then
    left=$((seconds * (100 - percent) / percent))
    took=$((took + seconds)) expected=$((expected + ${planned_seconds[$name]:-0} * percent / 100))
  else
    left=$((${planned_seconds[$name]:-0} - seconds))
    [ "$left" -gt 0 ] || left=0
  fi
  for index in "${planned[@]}"; do
    [ "$after" = 0 ] || left=$((left + ${planned_seconds[$index]} * (expected > 60 ? took * 100 / expected : 100) / 100))
    [ "$index" != "$name" ] || after=1
  done
  echo "$left"
}

# progress_line NAME SECONDS LOG
progress_line() {
  local percent percent_counts_time=1 number=0 index left
  percent=$(percent_of "$3")
  ! tail -c 4000 "$3" 2> /dev/null | grep -qE '^ *[0-9]+/[0-9]+ Test' || percent_counts_time=0
  for index in "${!planned[@]}"; do [ "${planned[$index]}" != "$1" ] || number=$((index + 1)); done
  left=$(seconds_left "$1" "$2" "$percent")
  printf '%d of %d: %s%s, %s' "$number" "${#planned[@]}" "$1" "${percent:+, $percent %}" \
    "$([ "$left" -gt 90 ] && echo "about $(((left + 30) / 60)) min left" || echo "about $left s left")"
}

# Until process PID has ended.
show_progress() {
  local name=$1 log=$2 pid=$3 began=$SECONDS said=$SECONDS
  while kill -0 "$pid" 2> /dev/null; do
    if [ -t 1 ]; then
      printf '\r\033[K%s' "$(progress_line "$name" $((SECONDS - began)) "$log")"
    elif [ $((SECONDS - said)) -ge 30 ]; then
      said=$SECONDS
      progress_line "$name" $((SECONDS - began)) "$log"
      echo
    fi
    read -rt 1 -u "$stage_clock" || true
  done
  [ ! -t 1 ] || printf '\r\033[K'
}

stage() {
  local name=$1 log=$stage_logs/${1// /-}.log began=$SECONDS status=0
  shift
  mkdir -p "$stage_logs"
  set -m
  ("$@") > "$log" 2>&1 < /dev/null &
  stage_pid=$!
  set +m
  show_progress "$name" "$log" "$stage_pid"
  wait "$stage_pid" || status=$?
  stage_pid=''
  stage_names+=("$name")
  stage_seconds+=($((SECONDS - began)))
  if [ "$status" = 0 ]; then
    printf '%-32s %5d s\n' "$name" $((SECONDS - began))
  else
    printf '%-32s failed after %d s; the end of %s:\n' "$name" $((SECONDS - began)) "$log"
    tail -n 40 "$log"
    failed_stage=$name
  fi
  return "$status"
}

stage_in_sight() {
  local name=$1 began=$SECONDS
  shift
  failed_stage=$name
  "$@"
  failed_stage=''
  stage_names+=("$name")
  stage_seconds+=($((SECONDS - began)))
}

configure() {
  cmake --preset "$1" && return
  # CMake forgets the preset's values where the compiler is another than before, and remembers the next time.
  cmake --preset "$1"
}

stage_table() {
  local index total=0
  for index in "${!stage_names[@]}"; do
    printf '%-32s %5d s\n' "${stage_names[$index]}" "${stage_seconds[$index]}"
    total=$((total + stage_seconds[index]))
  done
  printf '%-32s %5d s\n' total "$total"
}
