#!/usr/bin/env bash
# bare_debian.sh WHEEL: installs a wheel into a Debian root that holds Python alone, and runs there the README's example
# and `flagstone demo` at 160 MiB. Needs root and debootstrap. What the wheel depends on is fetched outside.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wheel=${1:?bare_debian.sh: name a wheel}
root=build/debian python=.venv/bin/python
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap

leave() { mountpoint -q "$root/proc" && umount "$root/proc" || true; }
trap leave EXIT
leave
rm -rf "$root"
mirror=$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)
debootstrap --variant=minbase --include=python3,python3-venv \
  "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" "$mirror" >build/debian.log || {
  tail -n 20 build/debian.log
  exit 1
}
mount -t proc proc "$root/proc"
mkdir "$root/wheels" "$root/checkout" "$root/checkout/tools"
$python -m pip --disable-pip-version-check -q download --only-binary :all: -d "$root/wheels" "$wheel"
cp README.md "$root/checkout"
cp tools/check_wheel.py "$root/checkout/tools"
chroot "$root" python3 -m venv /environment
chroot "$root" /environment/bin/pip --disable-pip-version-check -q install --no-index --find-links /wheels flagstone
chroot "$root" /environment/bin/python /checkout/tools/check_wheel.py --installed --demo
