#!/bin/sh
# Creates state.tar.gz: a home and projects as release 0.1.0 leaves them.
# usage: make.sh BINARY-OF-0.1.0   (as root; needs git, strace, tar)
#
# Records contain absolute paths and hashes of paths, so the directory is fixed.
set -eu
bin=$(realpath "$1") here=$(dirname "$(realpath "$0")") place=/var/tmp/agent-sandbox-0.1.0
rm -rf "$place"
mkdir -p "$place/home"
export HOME="$place/home" GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=test@example.com
export GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=test@example.com

# The same files for every project, and the same work in every session.
project() {
  mkdir -p "$place/$1/build" "$place/$1/empty"
  cd "$place/$1"
  echo one >a
  seq 60 >h
  echo x >build/x
}
readonly work='sed -i s/^5$/FIVE/ h; echo new >n; chmod 700 n; rm a build/x; echo n >build/n; rm -r empty; mkdir empty; echo e >empty/e; ln -s n l'
session() { "$bin" --session "$@" sh -ec "$work"; }
# killed CALL NTH COMMAND…: COMMAND is killed at its NTH CALL.
killed() {
  call=$1 nth=$2
  shift 2
  ! strace -f -o /dev/null -e "inject=$call:signal=KILL:when=$nth" "$bin" "$@"
}

project layers
session over
"$bin" snapshot -s over before
"$bin" --session over sh -c 'echo later >>n'
"$bin" --session fuse --cow=agentfs sh -ec "$work"

project applied
session applied
"$bin" apply -s applied

for half in half-resumed half-undone; do
  project $half
  session $half
  killed renameat2 4 apply -s $half
done

project undoing
session undoing
"$bin" apply -s undoing
killed renameat2 3 undo -s undoing

# Killed after the journal says that everything is undone, and before the record of the base does.
project hidden
session hidden
"$bin" apply -s hidden
killed fdatasync 1 undo -s hidden

project trusted
printf 'network = false\n[filesystem]\nrw = ["%s/shared"]\n' "$place" >sandbox.toml
mkdir "$place/shared"
"$bin" trust

project planted
git init -q
"$bin" sh -c 'mkdir sub; cd sub; git init -q; printf "#!/bin/sh\n" >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git config core.fsmonitor ./x'

project kept
"$bin" --cow up --name kept
"$bin" exec -s kept sh -ec "$work"
"$bin" down kept

cd "$place"
find . -name .git -prune -o -type s -print -exec rm {} +
tar --create --gzip --xattrs --xattrs-include='user.*' --numeric-owner --owner=0 --group=0 --file "$here/state.tar.gz" .
rm -rf "$place"
