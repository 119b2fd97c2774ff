#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's kernels linux-image-6.12.117+deb12-amd64 and 7.3.4+deb13-amd64 (trixie-backports).
#
# Guessed: what Debian's kernels have of DAMON does nothing unless a user asks for it, as before.
# Seen: 7.3 has DAMON_STAT, and CONFIG_DAMON_STAT_ENABLED_DEFAULT=y: a thread kdamond.0 looks at
# memory from the boot on.  An idle guest of one vCPU was woken up by it ten times a second, which
# made two thirds of its VM exits.  `damon_stat.enabled=N` on the command line ends that.  Who
# compares idle guests of both kernels compares that, too.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq linux-image-6.12.117+deb12-amd64=6.12.117-1~deb12u1 2>/dev/null
dpkg-deb --fsys-tarfile linux-image-6.12.*.deb | tar -x ./boot/config-6.12.117+deb12-amd64
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $mirror trixie-backports main" >sources.list
mkdir -p lists/partial cache/archives/partial
ours() {
	apt-get -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" "$@" 2>/dev/null
}
ours update
ours download linux-base-7.3.4+deb13-amd64
dpkg-deb -x linux-base-7.3.4*.deb base
found=$(grep -hE '^CONFIG_DAMON(_STAT.*)?=' boot/config-6.12.* base/usr/lib/modules/*/config)
echo "$found"
[ "$found" = "CONFIG_DAMON=y
CONFIG_DAMON=y
CONFIG_DAMON_STAT=y
CONFIG_DAMON_STAT_ENABLED_DEFAULT=y" ]
