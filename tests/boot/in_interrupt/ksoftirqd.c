// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timers that ksoftirqd sets, which always has something to do.
 *
 *     ksoftirqd MS
 *
 * A program at the loopback device sends each packet again, as often as the
 * packet says, and one for ever.  That keeps ksoftirqd busy.  A task with
 * deadlines waits for a packet again and again, which comes behind its
 * deadline.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "deadline.h"

#define PORT 9999
#define FOR_EVER 0xffff
/* Some 1.4 ms, of two packets. */
#define TIMES 1000

#define INSN(c, d, s, o, i) { .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }
#define LOAD(size, d, s, o) INSN(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define JUMP(op, d, i, o) INSN(BPF_JMP | (op) | BPF_K, d, 0, o, i)

/* UDP packets to PORT begin with how often they are to be sent again. */
static const struct bpf_insn again[] = {
	LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, data)),
	LOAD(BPF_W, 3, 1, offsetof(struct xdp_md, data_end)),
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, 4, 2, 0, 0),
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, 44),
	INSN(BPF_JMP | BPF_JGT | BPF_X, 4, 3, 11, 0),
	LOAD(BPF_B, 5, 2, 23),
	JUMP(BPF_JNE, 5, IPPROTO_UDP, 9),
	LOAD(BPF_H, 5, 2, 36),
	JUMP(BPF_JNE, 5, __builtin_bswap16(PORT), 7),
	LOAD(BPF_H, 5, 2, 42),
	JUMP(BPF_JEQ, 5, 0, 5),
	JUMP(BPF_JEQ, 5, FOR_EVER, 2),
	INSN(BPF_ALU64 | BPF_SUB | BPF_K, 5, 0, 0, 1),
	INSN(BPF_STX | BPF_MEM | BPF_H, 2, 5, 42, 0),
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_TX),
	INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_PASS),
	INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
};

static void attach(void)
{
	static char log[65536];
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)again,
		.insn_cnt = sizeof(again) / sizeof(again[0]), .license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log, .log_size = sizeof(log), .log_level = 1,
	};
	union bpf_attr link = {
		.link_create.target_ifindex = 1, .link_create.attach_type = BPF_XDP,
		.link_create.flags = XDP_FLAGS_SKB_MODE,
	};

	link.link_create.prog_fd = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	if ((int)link.link_create.prog_fd < 0) {
		fputs(log, stderr);
		die("BPF_PROG_LOAD");
	}
	/* Open until the process ends. */
	if (syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof(link)) < 0)
		die("BPF_LINK_CREATE");
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int udp = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
	uint16_t times = FOR_EVER;
	long long end;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (argc != 2)
		return 2;
	if (ioctl(udp, SIOCSIFFLAGS, &lo) || bind(udp, (struct sockaddr *)&to, sizeof(to)) ||
	    /* What is changed on the way has no checksum. */
	    setsockopt(udp, SOL_SOCKET, SO_NO_CHECK, &one, sizeof(one)))
		die("socket");
	attach();
	if (sendto(udp, &times, sizeof(times), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("sendto");
	have_deadlines(900, 1000, 3700);
	end = now() + atoi(argv[1]) * 1000000LL;
	while (now() < end) {
		times = TIMES;
		if (sendto(udp, &times, sizeof(times), 0, (struct sockaddr *)&to, sizeof(to)) < 0 ||
		    recv(udp, &times, sizeof(times), 0) < 0)
			die("packet");
	}
	return 0;
}
