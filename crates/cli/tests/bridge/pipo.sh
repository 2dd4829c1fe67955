#!/bin/sh
case $1 in
  cat) exec cat ;;
  code) exit "$2" ;;
  both) echo to-out; echo to-err >&2 ;;
  pwd) pwd ;;
  env) env ;;
  read) cat "$2" ;;
  trap) trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done ;;
  die) kill -KILL $$ ;;
  wait) echo "pid $$"; exec sleep 1000 ;;
  flood) yes ;;
  echo) echo "$2"; cat >/dev/null ;;
  # Twice removed, in a session of its own, deaf to everything but KILL.
  flee) setsid sh -c 'trap "" TERM HUP INT; sh -c "echo \$\$ > $1; exec sleep 1000" sh "$1" & wait' sh "$2" >/dev/null 2>&1 </dev/null &
    while [ ! -s "$2" ]; do sleep 0.02; done
    [ -z "$3" ] || exec sleep 1000 ;;
  *) printf '<%s>' "$@"; echo ;;
esac
