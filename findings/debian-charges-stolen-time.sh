#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's linux-config-6.12 and linux-source-6.12 6.12.117-1~deb12u1, as of Debian 12.
#
# Guessed: a kernel for clouds shows stolen time in /proc/stat, and does not take it for run time of
# the task that it was stolen from.
# Seen: the former is by CONFIG_PARAVIRT, which all flavours have; the latter by
# CONFIG_PARAVIRT_TIME_ACCOUNTING, which none has, the cloud flavour neither (nor 6.1 and 7.3.4, not
# shown here).  So the scheduler's clock of tasks goes on while a vCPU does not run, and a program's
# CPU time by getrusage() or time, and a cgroup's in cpu.stat, grow with what the neighbours do; the
# sum over the tasks is more than user and system of /proc/stat, which lack what was stolen.
set -eu
cd "$(mktemp -d)"
here=$PWD
trap 'rm -r "$here"' EXIT
apt-get download -qq linux-source-6.12=6.12.117-1~deb12u1 \
	linux-config-6.12=6.12.117-1~deb12u1 2>/dev/null
for package in *.deb; do
	dpkg-deb -x "$package" .
done
for flavour in none_amd64 none_cloud-amd64 rt_amd64; do
	xz -dc "usr/src/linux-config-6.12/config.amd64_$flavour.xz" |
		sed -n "s/^/$flavour: /; /CONFIG_PARAVIRT\(_TIME_ACCOUNTING\)*[= ]/p"
done | tee said
[ "$(grep -c 'CONFIG_PARAVIRT=y' said)" = 3 ]
[ "$(grep -c '# CONFIG_PARAVIRT_TIME_ACCOUNTING is not set' said)" = 3 ]
tar -xf usr/src/linux-source-6.12.tar.xz linux-source-6.12/kernel/sched
cd linux-source-6.12/kernel/sched
# under FUNCTION FILE: the #if around what reads the stolen time
under() {
	sed -n "/^[a-z].*$1(/,/^}/p" "$2" | awk -v name="$1" '
		/^#if/ { under = $2 } /paravirt_steal_clock/ { print name ": " under }'
}
found=$(under steal_account_process_time cputime.c; under update_rq_clock_task core.c
	sed -n '/^static s64 update_curr_se(/,/^}/p' fair.c | grep -o 'now = .*;'
	sed -n '/^void cputime_adjust(/,/^}/p' cputime.c | grep -o 'rtime = curr.*;')
echo "$found"
[ "$found" = "steal_account_process_time: CONFIG_PARAVIRT
update_rq_clock_task: CONFIG_PARAVIRT_TIME_ACCOUNTING
now = rq_clock_task(rq);
rtime = curr->sum_exec_runtime;" ]
