#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's kernel linux-image-6.12.117+deb12-cloud-amd64, in Debian 12's QEMU
# 1:7.2+dfsg-7+deb12u18+b3 with TCG.
#
# Guessed: on an idle CPU poll() returns at most the timer slack after its timeout, 50 µs or what
# PR_SET_TIMERSLACK says, as prctl(2) has it, and niceness matters only if others want the CPU.
# Seen: poll(), select() and epoll_wait() have a slack of their own, a thousandth of the timeout,
# and five times as much for whoever has a nice value above 0; at most 100 ms.  PR_SET_TIMERSLACK
# cannot make it less.  nanosleep() and timerfd have none of it.  So who starts a measurement, or a
# VMM that polls, with `nice` makes its timers late without any other load.
# Output here, the latest of five on an idle CPU: poll() of 1 s is 1006 µs late, with nice 1
# 5006 µs, of 10 s 50006 µs; nanosleep() 55 µs, a timerfd 8 µs.
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
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int epoll, timer;

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void wait_by(char how, int seconds)
{
	struct timespec ts = { seconds };
	struct itimerspec its = { .it_value = ts };
	struct epoll_event event;
	uint64_t times;

	switch (how) {
	case 'p':
		poll(NULL, 0, seconds * 1000);
		break;
	case 'e':
		epoll_wait(epoll, &event, 1, seconds * 1000);
		break;
	case 'n':
		nanosleep(&ts, NULL);
		break;
	case 't':
		timerfd_settime(timer, 0, &its, NULL);
		(void)!read(timer, &times, sizeof times);
	}
}

static void late(const char *how, int seconds, const char *who)
{
	int64_t most = 0;

	for (int i = 0; i < 5; i++) {
		int64_t start = now();
		wait_by(*how, seconds);
		int64_t us = now() - start - seconds * 1000000LL;
		if (us > most)
			most = us;
	}
	printf("late: %s of %d s, %s: %d us\n", how, seconds, who, (int)most);
}

int main(void)
{
	epoll = epoll_create1(0);
	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	late("nanosleep", 1, "nice 0");
	late("timerfd", 1, "nice 0");
	late("poll", 1, "nice 0");
	late("epoll_wait", 1, "nice 0");
	prctl(PR_SET_TIMERSLACK, 1);
	late("poll", 1, "nice 0 and a slack of 1 ns");
	nice(1);
	late("nanosleep", 1, "nice 1");
	late("timerfd", 1, "nice 1");
	late("poll", 1, "nice 1");
	late("epoll_wait", 1, "nice 1");
	late("poll", 10, "nice 1");
	fflush(stdout);
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
	sed -n 's/.*late: //p' | tee said
awk '{ us[NR] = $(NF - 1) }
	function near(n, want) { return us[n] > 0.8 * want && us[n] < 1.2 * want }
	END {
	short = us[1] < 300 && us[2] < 300 && us[6] < 300 && us[7] < 300
	exit !(NR == 10 && short && near(3, 1000) && near(4, 1000) && near(5, 1000) &&
		near(8, 5000) && near(9, 5000) && near(10, 50000)) }' said
