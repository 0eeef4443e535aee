#!/usr/bin/env bash
# system_packages.sh build|test: installs the Debian/Ubuntu packages that are missing; nothing happens when all are there.
# Each is looked for by what it provides, so that another distribution or a self-built one counts too.
set -euo pipefail

python=${PYTHON:-python3}
have_header() { echo "#include <$1>" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }
have_library() { echo 'int main() {}' | g++ -x c++ - "-l$1" -o /dev/null 2>/dev/null; }

missing=()
need() {  # need PACKAGE COMMAND...: the package is missing when the command fails
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

case "${1:-build}" in
  build)
    need g++ command -v g++
    need cmake command -v cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need python3 command -v "$python"
    need python3-venv "$python" -c 'import ensurepip, venv'
    need python3-dev "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
    need libblosc-dev have_header blosc.h
    need liblz4-dev have_header lz4.h
    need libzstd-dev have_header zstd.h
    need zlib1g-dev have_header zlib.h
    need libbz2-dev have_header bzlib.h
    need nlohmann-json3-dev have_header nlohmann/json.hpp
    need liburing-dev have_header liburing.h
    ;;
  test)
    need libgtest-dev have_library gtest
    need libgmock-dev have_library gmock
    ;;
  *)
    echo "system_packages.sh: '$1' is not a set of packages; build and test are." >&2
    exit 2
    ;;
esac
[ "${#missing[@]}" -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; }; then
  echo "make: these packages are missing and cannot be installed from here: ${missing[*]}; install them first" \
    "(Debian, Ubuntu: sudo apt-get install ${missing[*]})." >&2
  exit 1
fi
echo "make: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
