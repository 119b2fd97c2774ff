// SPDX-License-Identifier: GPL-2.0-only
/*
 * A QEMU TCG plugin that counts what only the emulator sees for certain: the
 * world switches of every CPU (AMD SVM: VMRUN, and the #VMEXIT that ends it),
 * and the instructions that host and guest execute.
 *
 * It knows nothing of KVM, of tracepoints or of BPF maps: its count is
 * independent of the one it is compared with. Only the edges of a window are
 * told to it, by three instructions in the BPF programs of the host
 * (bpf/exits.bpf.c), which the x86 JIT emits as `mov edi, imm32`.
 *
 * Usage: -accel tcg,thread=single -plugin worldswitch.so,out=FILE
 *
 * FILE gets one line of JSON per window, and one with the totals at exit;
 * emulator/README.md describes both, and how exact each number is.
 *
 * With thread=single one CPU runs at a time and changes only between
 * translation blocks, so nothing here is locked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu-plugin.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/*
 * A marker says what the instruction right after it does: it sets or clears
 * the flag "a window is open", or it reads that flag to count an exit.
 */
enum mark {
	MARK_NONE,
	MARK_OPEN,
	MARK_CLOSE,
	MARK_SEEN,
	MARK_COUNT,
};

struct counts {
	uint64_t switches;
	uint64_t host;
	uint64_t guest;
};

/* A VMRUN instruction, and where the host goes on after it. */
struct site {
	uint64_t next;
	/* The same place in QEMU's memory; NULL: in another page. */
	const void *next_in_memory;
};

struct cpu {
	struct counts now;
	struct counts at_open;
	/* Where this CPU entered the guest that it runs; NULL: runs the host. */
	const struct site *inside;
	/* It has left the guest, and the host has not counted the exit yet. */
	bool unseen;
	/* So it was when the window was opened. */
	bool unseen_at_open;
	/* The marker that ended the last block, its meaning not yet applied. */
	enum mark pending;
};

#define MAX_SITES 64

/*
 * What PAUSE takes, in instructions, beside its own: it is in the CPU's time, and a CPU
 * that polls executes little else (../patches/0002-*, which charges it).
 */
#define PAUSE_COST 40

static struct site sites[MAX_SITES];
static unsigned int nr_sites;
static struct cpu *cpus;
static unsigned int nr_cpus;
static FILE *out;
static uint64_t windows;
/* How often a window was opened since one was closed. */
static unsigned int opens;

static void print_counts(const struct counts *from, const struct counts *to)
{
	fprintf(out,
		"{\"world_switches\":%" PRIu64 ",\"host_instructions\":%" PRIu64
		",\"guest_instructions\":%" PRIu64 "}",
		to->switches - from->switches, to->host - from->host,
		to->guest - from->guest);
}

/* A CPU's counts, less the exit that the host has not counted yet. */
static struct counts seen(const struct cpu *cpu)
{
	struct counts counts = cpu->now;

	counts.switches -= cpu->unseen;
	return counts;
}

static void open_window(void)
{
	for (unsigned int i = 0; i < nr_cpus; i++) {
		cpus[i].at_open = seen(&cpus[i]);
		cpus[i].unseen_at_open = cpus[i].unseen;
	}
	opens++;
}

static void close_window(unsigned int closing)
{
	if (!opens)
		return;
	fprintf(out, "{\"window\":%" PRIu64 ",\"opens\":%u,\"cpus\":[",
		windows++, opens);
	for (unsigned int i = 0; i < nr_cpus; i++) {
		struct counts counts = seen(&cpus[i]);

		/* The exit that the closing marker itself has caused. */
		if (i == closing)
			counts.switches--;
		if (i)
			fputc(',', out);
		print_counts(&cpus[i].at_open, &counts);
	}
	fputs("]}\n", out);
	fflush(out);
	opens = 0;
}

static void apply(unsigned int index, enum mark mark)
{
	struct cpu *cpu = &cpus[index];

	/* A guest that counts its own guests has the same markers. */
	if (cpu->inside)
		return;
	switch (mark) {
	case MARK_OPEN:
		open_window();
		break;
	case MARK_CLOSE:
		close_window(index);
		break;
	case MARK_SEEN:
		cpu->unseen = cpu->unseen_at_open = false;
		break;
	default:
		break;
	}
}

/* Runs before the instruction that a marker stands beside. */
static void on_marked(unsigned int index, void *mark)
{
	if (index < nr_cpus)
		apply(index, (enum mark)(uintptr_t)mark);
}

/* Runs before a marker that is the last instruction of its block. */
static void on_last_marker(unsigned int index, void *mark)
{
	if (index < nr_cpus)
		cpus[index].pending = (enum mark)(uintptr_t)mark;
}

/* Runs before VMRUN. */
static void on_vmrun(unsigned int index, void *site)
{
	struct cpu *cpu;

	/* One by a guest is always intercepted: no world switch of its own. */
	if (index >= nr_cpus || cpus[index].inside)
		return;
	cpu = &cpus[index];
	cpu->inside = site;
	/* An exit from before the host began to count: it is in no window. */
	if (cpu->unseen && cpu->unseen_at_open)
		cpu->at_open.switches++;
	cpu->unseen = cpu->unseen_at_open = false;
}

/* Runs before the host's first instruction after VMRUN. */
static void on_vmexit(unsigned int index, void *site)
{
	struct cpu *cpu;

	if (index >= nr_cpus)
		return;
	cpu = &cpus[index];
	if (cpu->inside != site)
		return;
	cpu->inside = NULL;
	cpu->now.switches++;
	cpu->unseen = true;
}

/* Runs before every block. */
static void on_block(unsigned int index, void *instructions)
{
	struct cpu *cpu;

	if (index >= nr_cpus)
		return;
	cpu = &cpus[index];
	if (cpu->inside)
		cpu->now.guest += (uintptr_t)instructions;
	else
		cpu->now.host += (uintptr_t)instructions;
	if (cpu->pending) {
		enum mark mark = cpu->pending;

		cpu->pending = MARK_NONE;
		apply(index, mark);
	}
}

static enum mark find_mark(const struct qemu_plugin_insn *insn)
{
	static const unsigned char tail[] = { 0x4b, 0x54, 0x50 };
	const unsigned char *bytes = qemu_plugin_insn_data(insn);

	if (qemu_plugin_insn_size(insn) != 5 || bytes[0] != 0xbf ||
	    memcmp(bytes + 2, tail, sizeof(tail)))
		return MARK_NONE;
	return bytes[1] < MARK_COUNT ? bytes[1] : MARK_NONE;
}

static bool is_vmrun(const struct qemu_plugin_insn *insn)
{
	static const unsigned char vmrun[] = { 0x0f, 0x01, 0xd8 };

	return qemu_plugin_insn_size(insn) == sizeof(vmrun) &&
	       !memcmp(qemu_plugin_insn_data(insn), vmrun, sizeof(vmrun));
}

static bool is_pause(const struct qemu_plugin_insn *insn)
{
	static const unsigned char pause[] = { 0xf3, 0x90 };

	return qemu_plugin_insn_size(insn) == sizeof(pause) &&
	       !memcmp(qemu_plugin_insn_data(insn), pause, sizeof(pause));
}

static struct site *site_of(struct qemu_plugin_insn *vmrun)
{
	const size_t size = qemu_plugin_insn_size(vmrun);
	const char *here = qemu_plugin_insn_haddr(vmrun);
	struct site site = { .next = qemu_plugin_insn_vaddr(vmrun) + size };

	if (here && site.next & 0xfff)
		site.next_in_memory = here + size;
	for (unsigned int i = 0; i < nr_sites; i++) {
		if (sites[i].next == site.next &&
		    sites[i].next_in_memory == site.next_in_memory)
			return &sites[i];
	}
	if (nr_sites == MAX_SITES) {
		fprintf(stderr, "worldswitch: more than %d VMRUN instructions\n",
			MAX_SITES);
		exit(1);
	}
	sites[nr_sites] = site;
	return &sites[nr_sites++];
}

/*
 * The site that the host goes on from in a block that begins with `first`.
 * Where a guest runs the host's own kernel, it has the same code at the same
 * virtual address: the place in memory tells them apart.
 */
static struct site *site_before(struct qemu_plugin_insn *first)
{
	const uint64_t address = qemu_plugin_insn_vaddr(first);

	for (unsigned int i = 0; i < nr_sites; i++) {
		if (sites[i].next == address &&
		    (!sites[i].next_in_memory ||
		     sites[i].next_in_memory == qemu_plugin_insn_haddr(first)))
			return &sites[i];
	}
	return NULL;
}

static void on_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	const size_t length = qemu_plugin_tb_n_insns(block);
	struct site *site = site_before(qemu_plugin_tb_get_insn(block, 0));
	size_t instructions = length;

	/* It ends its block. */
	if (is_pause(qemu_plugin_tb_get_insn(block, length - 1)))
		instructions += PAUSE_COST;

	/* Callbacks run in the order of their registration. */
	if (site)
		qemu_plugin_register_vcpu_tb_exec_cb(
			block, on_vmexit, QEMU_PLUGIN_CB_NO_REGS, site);
	qemu_plugin_register_vcpu_tb_exec_cb(block, on_block,
					     QEMU_PLUGIN_CB_NO_REGS,
					     (void *)(uintptr_t)instructions);
	for (size_t i = 0; i < length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
		const enum mark mark = find_mark(insn);

		if (mark && i + 1 < length)
			qemu_plugin_register_vcpu_insn_exec_cb(
				qemu_plugin_tb_get_insn(block, i + 1), on_marked,
				QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)mark);
		else if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, on_last_marker, QEMU_PLUGIN_CB_NO_REGS,
				(void *)(uintptr_t)mark);
		else if (is_vmrun(insn))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, on_vmrun, QEMU_PLUGIN_CB_NO_REGS,
				site_of(insn));
	}
}

static void at_exit(qemu_plugin_id_t id, void *unused)
{
	const struct counts none = { 0 };

	fputs("{\"total\":{\"cpus\":[", out);
	for (unsigned int i = 0; i < nr_cpus; i++) {
		if (i)
			fputc(',', out);
		print_counts(&none, &cpus[i].now);
	}
	fputs("]}}\n", out);
	fclose(out);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
					   const qemu_info_t *info, int argc,
					   char **argv)
{
	const char *path = NULL;

	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4)) {
			path = argv[i] + 4;
		} else {
			fprintf(stderr, "worldswitch: unknown option %s\n",
				argv[i]);
			return -1;
		}
	}
	if (!info->system_emulation || !path) {
		fprintf(stderr,
			"worldswitch: system emulation and out=FILE are needed\n");
		return -1;
	}
	nr_cpus = info->system.max_vcpus;
	cpus = calloc(nr_cpus, sizeof(*cpus));
	out = fopen(path, "w");
	if (!cpus || !out) {
		perror("worldswitch: out");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
