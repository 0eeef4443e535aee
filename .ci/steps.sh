# Sourced by run and nightly: `step COMMAND...` runs and times one; what each took is told at the end, also of a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CI=true
exec </dev/null
names=() seconds=()

step() {
  echo "=== $* ($(date +%T))"
  local began=$SECONDS status=0
  "$@" || status=$?
  names+=("$*") seconds+=($((SECONDS - began)))
  return "$status"
}

table() {
  local status=$? total=0 i
  for i in "${!names[@]}"; do total=$((total + seconds[i])); done
  printf '\n%-24s %8s %6s\n' step seconds share
  for i in "${!names[@]}"; do
    printf '%-24s %8d %5d%%\n' "${names[i]}" "${seconds[i]}" $((total ? (200 * seconds[i] + total) / (2 * total) : 0))
  done
  printf '%-24s %8d\n' total "$total"
  ((status == 0)) && echo "=== all green ($(date +%T))" || echo "=== failed: ${names[-1]:-nothing ran} ($(date +%T))"
}
trap table EXIT
