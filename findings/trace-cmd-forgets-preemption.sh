#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian's libtraceevent1 and libtraceevent1-plugin 1:1.7.1-1, as of Debian 12.
#
# Guessed: a tool that reads a trace prints sched_switch as the kernel does, by the format of the
# event that the trace has with it.
# Seen: the library by itself does; with its plugins, which trace-cmd depends on and loads, it has
# letters of old kernels.  Preempted, R+, becomes R, as if the task had yielded; idle threads of the
# kernel, I, are W; parked, P, is x; Z and X change places.  So a report with the plugins cannot
# tell who was preempted, which is what a delay is counted for.  By trace-cmd's manual page, -N
# loads none (not run here).
# Needs gcc and libc6-dev.
set -eu
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
apt-get download -qq libtraceevent1=1:1.7.1-1 libtraceevent1-plugin=1:1.7.1-1 \
	libtraceevent-dev=1:1.7.1-1 2>/dev/null
for package in *.deb; do
	dpkg-deb -x "$package" .
done
# As Linux 6.12 has it in events/sched/sched_switch/format.
all='((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020'
all="$all | 0x00000040) + 1) << 1)"
tab=$(printf '\t')
cat >format <<END
name: sched_switch
ID: 310
format:
${tab}field:unsigned short common_type;${tab}offset:0;${tab}size:2;${tab}signed:0;
${tab}field:unsigned char common_flags;${tab}offset:2;${tab}size:1;${tab}signed:0;
${tab}field:unsigned char common_preempt_count;${tab}offset:3;${tab}size:1;${tab}signed:0;
${tab}field:int common_pid;${tab}offset:4;${tab}size:4;${tab}signed:1;

${tab}field:char prev_comm[16];${tab}offset:8;${tab}size:16;${tab}signed:0;
${tab}field:pid_t prev_pid;${tab}offset:24;${tab}size:4;${tab}signed:1;
${tab}field:int prev_prio;${tab}offset:28;${tab}size:4;${tab}signed:1;
${tab}field:long prev_state;${tab}offset:32;${tab}size:8;${tab}signed:1;
${tab}field:char next_comm[16];${tab}offset:40;${tab}size:16;${tab}signed:0;
${tab}field:pid_t next_pid;${tab}offset:56;${tab}size:4;${tab}signed:1;
${tab}field:int next_prio;${tab}offset:60;${tab}size:4;${tab}signed:1;

print fmt: "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> \
next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, \
(REC->prev_state & $all - 1)) ? __print_flags(REC->prev_state & $all - 1), "|", \
{ 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, \
{ 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", \
REC->prev_state & ${all#(} ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio
END
cat >print.c <<'END'
#include <event-parse.h>
#include <stdio.h>
#include <string.h>

struct switched {
	unsigned short type;
	unsigned char flags, preempt_count;
	int pid;
	char prev_comm[16];
	int prev_pid, prev_prio;
	long prev_state;
	char next_comm[16];
	int next_pid, next_prio;
};

int main(int argc, char **argv)
{
	static const long states[] = { 0, 0x100, 1, 2, 0x10, 0x20, 0x40, 0x80 };
	static char format[1 << 14];
	struct tep_handle *tep = tep_alloc();
	struct tep_event *event;
	size_t size = fread(format, 1, sizeof format, stdin);

	tep_set_file_bigendian(tep, TEP_LITTLE_ENDIAN);
	tep_set_local_bigendian(tep, TEP_LITTLE_ENDIAN);
	tep_set_long_size(tep, 8);
	if (argc > 1)
		tep_load_plugins(tep);
	if (tep_parse_format(tep, &event, format, size, "sched") != 0)
		return 1;
	for (int i = 0; i < 8; i++) {
		struct switched data = { 310, 0, 0, 5, "from", 5, 120, states[i], "to", 6, 120 };
		struct tep_record record = { .data = &data, .size = sizeof data };
		struct trace_seq seq;

		trace_seq_init(&seq);
		tep_print_event(tep, &seq, &record, "%s", TEP_PRINT_INFO);
		trace_seq_terminate(&seq);
		puts(seq.buffer);
		trace_seq_destroy(&seq);
	}
}
END
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include/traceevent -o print print.c $libraries/libtraceevent.so.1
# printed ARGUMENT...: the states
printed() {
	LD_LIBRARY_PATH=$libraries TRACEEVENT_PLUGIN_DIR=$libraries/traceevent/plugins \
		./print "$@" <format | sed 's/ ==>.*//; s/.*[ =]//' | tr '\n' ' '
}
kernel=$(printed)
plugin=$(printed with-plugins)
echo "by the format: $kernel"
echo "with plugins:  $plugin"
[ "$kernel, $plugin" = "R R+ S D X Z P I , R R S D Z X x W " ]
