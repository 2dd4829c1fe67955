#!/bin/sh
case $1 in
  cat) exec cat ;;
  code) exit "$2" ;;
  both) echo to-out; echo to-err >&2 ;;
  pwd) pwd ;;
  env) env ;;
  read) cat "$2" ;;
  trap) trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done ;;
  status) exec cat /proc/self/status ;;
  usr) trap 'echo caught; exit 3' "$2"; echo ready; while :; do sleep 0.05; done ;;
  # A separate process without a trap is stopped and continued like any other.
  stops) echo "$$" > "$2"; while :; do sleep 0.05; done ;;
  ends) trap 'echo TERM > "$2.end"; exit' TERM; echo "$$" > "$2"; while :; do sleep 0.05; done ;;
  parent) sh -c 'echo "$$" > "$0.below"; exec sleep 1000' "$2" & echo "$$" > "$2"; exec sleep 1000 ;;
  die) kill -KILL $$ ;;
  wait) echo "pid $$"; exec sleep 1000 ;;
  flood) yes ;;
  echo) echo "$2"; cat >/dev/null ;;
  # A grandchild in its own session that ignores all signals except KILL.
  flee) setsid sh -c 'trap "" TERM HUP INT; sh -c "echo \$\$ > $1; exec sleep 1000" sh "$1" & wait' sh "$2" >/dev/null 2>&1 </dev/null &
    while [ ! -s "$2" ]; do sleep 0.02; done
    [ -z "$3" ] || exec sleep 1000 ;;
  *) printf '<%s>' "$@"; echo ;;
esac
