# Shared by the scripts in this folder, which source it from the checkout's root.
# shellcheck shell=bash

cache=$(realpath -m -- "${CROFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/croft}")
: "${me:=croft}"

say() { echo "$me: $*" >&2; }
die() {
  say "$*"
  exit 1
}

# quietly COMMAND...: shows the output only if the command fails.
quietly() {
  local out
  out=$("$@" 2>&1) || {
    local rc=$?
    printf '%s\n' "$out" >&2
    return "$rc"
  }
}

# as_root COMMAND...
as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -- "$@"
  else
    die "needs root for: $*"
  fi
}

# digest FILE...: one hash over the names and contents of files and the words in $salt.
digest() {
  { echo "${salt:-}"; sha256sum "$@"; } | sha256sum | cut -c1-16
}

# locked: one script at a time changes the cache; held until the script ends.
locked() {
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9
}

# point LINK TARGET: makes LINK a symbolic link to TARGET in one step.
point() {
  [[ $(readlink "$1" || true) == "$2" ]] && return
  mkdir -p "$(dirname "$1")"
  ln -sfn "$2" "$1.new"
  mv -fT "$1.new" "$1"
}
