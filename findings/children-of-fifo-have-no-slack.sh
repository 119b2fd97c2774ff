#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's kernel linux-image-6.12.117+deb12-cloud-amd64, in Debian 12's QEMU
# 1:7.2+dfsg-7+deb12u18+b3 with TCG.
#
# Guessed: a thread of SCHED_OTHER has a timer slack of 50 µs, and one that a thread of SCHED_FIFO
# started has it, too, as soon as it is of SCHED_OTHER, be it by SCHED_RESET_ON_FORK.
# Seen: a slack of 0, and its own children have it as well: what is the current slack of the parent
# is the default of the child, and it is 0 for SCHED_FIFO.  And who sets a slack and goes to
# SCHED_FIFO and back has the default again.  So the same program wakes up 50 µs earlier, and
# takes more timer interrupts, if a real-time shell or service started it.
# Output here: nanosleep() of 1 ms is 5 µs late then, and 55 µs otherwise.
# Needs gcc, libc6-dev and cpio.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq linux-image-6.12.117+deb12-cloud-amd64=6.12.117-1~deb12u1 \
	qemu-system-x86=1:7.2+dfsg-7+deb12u18+b3 qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 \
	qemu-system-data=1:7.2+dfsg-7+deb12u18 seabios=1.16.2-1 2>/dev/null
for package in *.deb; do
	dpkg-deb -x "$package" .
done
cat >init.c <<'END'
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void become(int policy)
{
	struct sched_param param = { policy == SCHED_OTHER ? 0 : 1 };
	sched_setscheduler(0, policy, &param);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void tell(const char *who)
{
	struct timespec ms = { 0, 1000000 };
	int us[9];

	for (int i = 0; i < 9; i++) {
		int64_t start = now();
		nanosleep(&ms, NULL);
		us[i] = now() - start - 1000;
	}
	qsort(us, 9, sizeof *us, compare);
	printf("slack %d ns, policy %d, 1 ms is %d us late: %s\n", prctl(PR_GET_TIMERSLACK),
		sched_getscheduler(0), us[4], who);
	fflush(stdout);
}

static void child(int policy, const char *who, const char *grandchild)
{
	if (fork() == 0) {
		if (policy >= 0)
			become(policy);
		tell(who);
		if (fork() == 0) {
			tell(grandchild);
			_exit(0);
		}
		wait(NULL);
		_exit(0);
	}
	wait(NULL);
}

int main(void)
{
	sleep(5);
	child(-1, "child", "its child");
	become(SCHED_FIFO);
	child(SCHED_OTHER, "child of SCHED_FIFO", "its child");
	become(SCHED_FIFO | SCHED_RESET_ON_FORK);
	child(-1, "child by SCHED_RESET_ON_FORK", "its child");
	become(SCHED_OTHER);
	prctl(PR_SET_TIMERSLACK, 1000000);
	tell("has set it");
	become(SCHED_FIFO);
	become(SCHED_OTHER);
	tell("and was SCHED_FIFO for a while");
	reboot(RB_POWER_OFF);
}
END
gcc -static -o init init.c
echo init | cpio -o -H newc --quiet >initrd
QEMU_MODULE_DIR=$PWD/usr/lib/x86_64-linux-gnu/qemu \
timeout 300 usr/bin/qemu-system-x86_64 \
	-accel tcg -icount shift=0,sleep=off -m 512 -nodefaults -display none -no-reboot \
	-serial stdio -L usr/share/qemu -L usr/share/seabios -kernel boot/vmlinuz-6.12.* \
	-initrd initrd -append 'console=ttyS0 quiet cryptomgr.notests' | tr -d '\r' |
	sed -n 's/.*\(slack .* ns\)/\1/p' | tee said
found=$(awk '{ print $2, $5, ($9 > 45 ? "late" : "soon") }' said)
[ "$found" = "50000 0, late
50000 0, late
0 0, soon
0 0, soon
0 0, soon
0 0, soon
1000000 0, late
50000 0, late" ]
