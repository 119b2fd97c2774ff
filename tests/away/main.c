// SPDX-License-Identifier: GPL-2.0-only
/*
 * What becomes of the counts of bpf/vcpu.bpf.c when threads end, change their
 * number or another VM takes it, when switches are not seen, and clocks go
 * back: each scenario by itself, and 2 million events by chance.
 */
#include "bpf.h"

/* Variables that the loader writes are no constants here. */
#define const
#include "../../bpf/vcpu.bpf.c"
#undef const

/* Of kvm_exit and sched_switch, whose fields are where this says. */
struct exit {
	__u64 common;
	__u32 reason, isa, vcpu, intr_info;
	__u64 info1, info2;
};

struct switched {
	__u64 common;
	__u32 prev, next;
	__u64 state;
	char comm[16];
};

#define HLT	0x78
#define CPUID	0x72
#define PORT	0x7b

#define AT(type, field)	__builtin_offsetof(struct type, field)

static void begin(void)
{
	__u32 i, others = 0;
	__u64 none = 0;

	for (i = 0; i < n_maps; i++) {
		free(maps[i].keys);
		free(maps[i].values);
		free(maps[i].there);
	}
	n_maps = 0;
	MAP(threads);
	MAP(vcpus);
	MAP(given);
	memset(running, 0, sizeof(running));
	MAP(vms);
	MAP(kinds);
	MAP(counts);
	STACK(left_vcpus);
	STACK(left_counts);
	bpf_map_update_elem(&vms, &others, &none, BPF_ANY);
	exit_reason_at = AT(exit, reason);
	exit_isa_at = AT(exit, isa);
	exit_vcpu_at = AT(exit, vcpu);
	exit_intr_info_at = AT(exit, intr_info);
	exit_info1_at = AT(exit, info1);
	exit_info2_at = AT(exit, info2);
	prev_pid_at = AT(switched, prev);
	next_pid_at = AT(switched, next);
	prev_state_at = AT(switched, state);
	prev_comm_at = AT(switched, comm);
	waking_pid_at = wakeup_pid_at = AT(switched, prev);
	this_cpu = 0;
}

/* The thread that runs now. */
static void be(__u32 tgid, __u32 pid)
{
	this_id = (__u64)tgid << 32 | pid;
}

static void switched(__u32 tgid, __u32 pid, __u32 sleeps)
{
	struct switched one = { .prev = this_id, .next = pid, .state = sleeps };

	sched_switch(&one);
	be(tgid, pid);
}

static void wakes(__u32 pid)
{
	struct switched one = { .prev = pid };

	sched_waking(&one);
}

static void exits(__u32 vcpu, __u32 reason, __u32 port)
{
	struct exit one = { .reason = reason, .isa = ISA_SVM, .vcpu = vcpu };

	one.info1 = (__u64)port << 16;
	kvm_exit(&one);
}

static void enters(void)
{
	kvm_entry(NULL);
}

static __u64 parts(struct spent *spent)
{
	return spent->kvm_ns + spent->vmm_ns + spent->blocked_ns + spent->waited_ns +
	       spent->interrupted_ns;
}

/* Of a VM's vCPU, or of all its vCPUs; of a reason, or of all. */
static struct spent counted(__u32 tgid, __u32 vcpu, __u32 reason)
{
	struct map *map = map_of(&kinds);
	struct spent all = {};
	__u32 i, j;

	for (i = 0; i < map->most; i++) {
		struct kind *kind = (void *)(map->keys + i * map->key);
		struct spent *spent;

		if (map->there[i] != 1 || kind->tgid != tgid ||
		    (reason && kind->reason != reason) ||
		    (vcpu != ~0u && kind->vcpu != vcpu))
			continue;
		spent = bpf_map_lookup_elem(&counts, map->values + i * map->value);
		all.count += spent->count;
		all.kvm_ns += spent->kvm_ns;
		all.vmm_ns += spent->vmm_ns;
		all.blocked_ns += spent->blocked_ns;
		all.waited_ns += spent->waited_ns;
		all.interrupted_ns += spent->interrupted_ns;
		for (j = 0; j < BUCKETS; j++)
			all.took[0] += spent->took[j];
	}
	assert(all.took[0] == all.count);
	return all;
}

static __u64 lost(__u32 tgid)
{
	__u64 *lost = bpf_map_lookup_elem(&vms, &tgid);

	return lost ? *lost : 0;
}

static struct vcpu *vcpu_of(__u32 pid)
{
	return at(place_of(pid));
}

/* A thread becomes another program, and has no vCPU any more. */
static void an_exec_ends_what_was_open(void)
{
	__u64 args[] = { 0, 0, 0 };

	begin();
	be(10, 11);
	exits(0, PORT, 7);
	kvm_userspace_exit(NULL);
	now_ns += 500;
	/* It has the first thread's number from now on. */
	args[1] = 11;
	be(10, 10);
	sched_process_exec(args);
	assert(counted(10, 0, PORT).count == 1 && counted(10, 0, PORT).vmm_ns == 500);
	assert(!vcpu_of(11) && !vcpu_of(10) && map_of(&left_vcpus)->used == 1);
	exits(0, CPUID, 0);
	enters();
	assert(counted(10, 0, CPUID).count == 1 && vcpu_of(10)->id == this_id);
}

/* The number of a thread that has ended is another one's, of this VM or another one. */
static void a_number_that_is_used_again_is_another_thread(void)
{
	__u32 first;

	begin();
	be(10, 11);
	exits(0, CPUID, 0);
	enters();
	first = vcpu_of(11)->thread;
	sched_process_exit(NULL);
	be(10, 11);
	exits(0, CPUID, 0);
	enters();
	assert(vcpu_of(11)->thread != first && map_of(&kinds)->used == 2);
	/* Its end was not seen. */
	be(20, 11);
	exits(0, CPUID, 0);
	enters();
	assert(map_of(&kinds)->used == 3 && counted(20, 0, CPUID).count == 1);
	assert(counted(10, 0, CPUID).count == 2);
	assert(*(__u32 *)bpf_map_lookup_elem(&given, &(__u32){ PLACES_OF_VCPUS }) == 1);
}

/* A thread that came to its CPU unseen is not the one that was there. */
static void an_unseen_switch_leaves_others_alone(void)
{
	begin();
	be(10, 11);
	exits(0, CPUID, 0);
	be(10, 12);
	exits(1, HLT, 0);
	enters();
	assert(counted(10, 1, HLT).count == 1 && counted(10, 0, 0).count == 0);
	assert(vcpu_of(11)->state == IN_KVM && vcpu_of(11)->exits == 1);
}

static void a_clock_that_goes_back_costs_nothing(void)
{
	struct spent spent;

	begin();
	be(10, 11);
	exits(0, HLT, 0);
	now_ns += 100;
	switched(0, 0, 1);
	/* On another CPU. */
	this_cpu = 1;
	now_ns -= 3;
	wakes(11);
	now_ns += 50;
	switched(10, 11, 0);
	enters();
	spent = counted(10, 0, HLT);
	assert(parts(&spent) < 1000 && spent.kvm_ns == 100 && spent.blocked_ns == 0);
}

static void ticks(void)
{
	local_timer_entry(NULL);
	now_ns += 70;
	local_timer_exit(NULL);
}

/* KVM of Linux 6.1 for AMD tells of an exit with interrupts on. */
static void an_interrupt_while_an_exit_is_noted_breaks_no_sum(void)
{
	struct spent spent;

	begin();
	be(10, 11);
	exits(0, CPUID, 0);
	enters();
	interrupts = ticks;
	exits(0, HLT, 0);
	now_ns += 30;
	enters();
	spent = counted(10, 0, HLT);
	assert(spent.count == 1 && spent.kvm_ns == 100 && parts(&spent) == 100);
}

/* It is of the exit that KVM tells of next, as is who had the CPU before that. */
static void what_comes_before_an_exit_is_told_of_is_the_exit_s(void)
{
	struct spent spent;
	__u32 i;

	begin();
	be(10, 11);
	exits(0, CPUID, 0);
	now_ns += 5;
	enters();
	for (i = 1; i <= 2; i++) {
		now_ns += 10000;
		ticks();
		now_ns += 20;
		switched(20, 21, 0);
		now_ns += 400;
		switched(10, 11, 0);
		now_ns += 3;
		exits(0, SVM_INTR, 0);
		assert(vcpu_of(11)->noted.facts == FACT_TIMER && !vcpu_of(11)->noted.wait);
		now_ns += 7;
		enters();
		spent = counted(10, 0, SVM_INTR);
		assert(spent.count == i && spent.kvm_ns == 30 * i);
		assert(spent.interrupted_ns == 70 * i && spent.waited_ns == 400 * i);
	}
	assert(vcpu_of(11)->exits == 3);
	/* Of another exit an interrupt says nothing, but takes time. */
	now_ns += 10000;
	ticks();
	exits(0, HLT, 0);
	assert(!vcpu_of(11)->noted.facts);
	now_ns += 9;
	enters();
	spent = counted(10, 0, HLT);
	assert(spent.count == 1 && spent.kvm_ns == 9 && spent.interrupted_ns == 70);
	/* An interrupt whose handler nobody told of is none that comes later. */
	exits(0, SVM_INTR, 0);
	ticks();
	assert(!vcpu_of(11)->noted.facts);
	enters();
	/* It comes at once, so this KVM does not tell late. */
	assert(!vcpu_of(11)->late);
	/* Its thread's return was not seen: the time before is no part of it. */
	ticks();
	switched(0, 0, 1);
	now_ns += 5000;
	be(10, 11);
	exits(0, CPUID, 0);
	now_ns += 4;
	enters();
	spent = counted(10, 0, CPUID);
	assert(spent.count == 2 && parts(&spent) == 5 + 4);
	/* What is told of by nobody was no exit. */
	ticks();
	enters();
	ticks();
	sched_process_exit(NULL);
	spent = counted(10, ~0u, 0);
	assert(spent.count == 6 && !lost(10) && !lost(0));
}

/* The clock is read as the guest is entered. */
static void so_does_none_while_an_entry_is(void)
{
	struct spent spent;

	begin();
	be(10, 11);
	exits(0, CPUID, 0);
	now_ns += 30;
	interrupts_clock = ticks;
	enters();
	spent = counted(10, 0, CPUID);
	assert(spent.count == 1 && spent.kvm_ns == 100 && parts(&spent) == 100);
	/* Nor one of an exit that had another. */
	exits(0, HLT, 0);
	ticks();
	now_ns += 30;
	interrupts_clock = ticks;
	enters();
	spent = counted(10, 0, HLT);
	assert(spent.kvm_ns == 100 && spent.interrupted_ns == 70 && parts(&spent) == 170);
}

/* From CPU 0 to CPU 1, with interrupts in interrupts; the next exit has none of that. */
static void an_exit_that_changes_its_cpu_leaves_nothing_to_the_next(void)
{
	struct spent spent;
	struct vcpu *vcpu;

	begin();
	be(10, 11);
	exits(0, HLT, 0);
	now_ns += 5;
	local_timer_entry(NULL);
	now_ns += 10;
	softirq_entry(NULL);
	local_timer_entry(NULL);
	now_ns += 20;
	local_timer_exit(NULL);
	softirq_exit(NULL);
	now_ns += 30;
	local_timer_exit(NULL);
	kvm_userspace_exit(NULL);
	now_ns += 100;
	switched(0, 0, 1);
	now_ns += 200;
	this_cpu = 1;
	wakes(11);
	now_ns += 400;
	switched(10, 11, 0);
	now_ns += 800;
	kvm_arch_vcpu_ioctl_run(NULL);
	now_ns += 7;
	enters();
	spent = counted(10, 0, HLT);
	assert(spent.count == 1 && spent.kvm_ns == 12 && spent.interrupted_ns == 60);
	assert(spent.vmm_ns == 900 && spent.blocked_ns == 200 && spent.waited_ns == 400);
	exits(0, CPUID, 0);
	vcpu = vcpu_of(11);
	assert(!vcpu->depth && !vcpu->absence.flags && !vcpu->absence.taker);
	now_ns += 50;
	enters();
	spent = counted(10, 0, CPUID);
	assert(spent.count == 1 && spent.kvm_ns == 50 && parts(&spent) == 50);
	/* CPU 0 has no vCPU's thread since. */
	this_cpu = 0;
	be(0, 0);
	kvm_entry(NULL);
	ticks();
	assert(parts(bpf_map_lookup_elem(&counts, &(__u32){ NOWHERE })) == 0);
	assert(this_vcpu()->state == IN_GUEST && !this_vcpu()->changed);
}

/* Of each vCPU as many as it may have, until there is no place left. */
static void more_kinds_than_there_is_room_for_are_lost_and_told(void)
{
	__u32 vcpu, port, made = 0;

	begin();
	for (vcpu = 0; made < MAX_KINDS + 40; vcpu++) {
		be(7, 100 + vcpu);
		for (port = 1; port <= KINDS_OF_ONE && made < MAX_KINDS + 40; port++, made++) {
			exits(vcpu, PORT, port);
			enters();
		}
	}
	/* Place 0 is none. */
	assert(lost(7) == 41 && counted(7, ~0u, 0).count == MAX_KINDS - 1);
	/* One that has its place is counted as before. */
	be(7, 100);
	exits(0, PORT, 1);
	enters();
	assert(lost(7) == 41 && counted(7, 0, 0).count == KINDS_OF_ONE + 1);
}

/* What is counted of them nobody would ask for. */
static void more_vms_than_there_is_room_for_are_lost_and_told(void)
{
	__u32 vm;

	begin();
	for (vm = 1; vm <= MAX_LIVE_VMS + 5; vm++) {
		be(vm, vm);
		exits(0, CPUID, 0);
		enters();
	}
	assert(lost(0) == 6);
	for (vm = 1; vm <= MAX_LIVE_VMS + 5; vm += 997)
		assert(counted(vm, 0, 0).count == (vm < MAX_LIVE_VMS));
}

static void more_vcpus_than_there_is_room_for_are_lost_and_told(void)
{
	__u32 pid, vcpus = MAX_VCPUS + 9;

	begin();
	for (pid = 1; pid <= vcpus; pid++) {
		be(7, pid);
		exits(pid, CPUID, 0);
		enters();
	}
	/* Place 0 is none. */
	assert(lost(7) == 10 && counted(7, ~0u, 0).count == MAX_VCPUS - 1);
	/* A place that was left is taken. */
	be(7, 5);
	sched_process_exit(NULL);
	be(7, vcpus);
	exits(vcpus, CPUID, 0);
	enters();
	assert(lost(7) == 10 && counted(7, vcpus, 0).count == 1);
}

/* By chance: threads of three VMs, on all CPUs. */
#define THREADS	24

struct actor {
	__u32 tgid, pid, vcpu;
	__u32 cpu;		/* + 1, while it runs */
	__u32 guest, asleep;
	__u64 left_ns;		/* the guest */
};

static struct actor actors[THREADS], *on[CPUS];
static __u64 made[4][8], away_ns[4][8];

static void comes(__u32 cpu, struct actor *next)
{
	struct actor *prev = on[cpu];

	this_cpu = cpu;
	be(prev ? prev->tgid : 0, prev ? prev->pid : 0);
	switched(next ? next->tgid : 0, next ? next->pid : 0, prev && prev->asleep);
	if (prev)
		prev->cpu = 0;
	on[cpu] = next;
	if (next)
		next->cpu = cpu + 1;
}

static void happens(struct actor *one, __u32 what)
{
	__u32 n = rand() % CPUS;

	if (!one->cpu) {
		if (one->asleep) {
			this_cpu = n;
			wakes(one->pid);
			one->asleep = 0;
		}
		/* Only a vCPU's thread that is in KVM leaves its CPU. */
		if (!on[n] || !on[n]->guest)
			comes(n, one);
		return;
	}
	this_cpu = one->cpu - 1;
	be(one->tgid, one->pid);
	if (one->guest) {
		exits(one->vcpu, what & 1 ? HLT : CPUID, 0);
		made[one->tgid][one->vcpu]++;
		one->guest = 0;
		one->left_ns = now_ns;
	} else if (what < 40) {
		enters();
		one->guest = 1;
		if (one->left_ns)
			away_ns[one->tgid][one->vcpu] += now_ns - one->left_ns;
	} else if (what < 60) {
		ticks();
	} else if (what < 70) {
		kvm_userspace_exit(NULL);
	} else if (what < 80) {
		kvm_arch_vcpu_ioctl_run(NULL);
	} else if (what < 97) {
		one->asleep = what & 1;
		comes(this_cpu, NULL);
	} else {
		__u32 vm = 1 + rand() % 3;

		if (one->left_ns)
			away_ns[one->tgid][one->vcpu] += now_ns - one->left_ns;
		sched_process_exit(NULL);
		comes(this_cpu, NULL);
		/* Its number is used again at once, as a rule. */
		*one = (struct actor){ .tgid = vm, .pid = one->pid, .vcpu = rand() % 8 };
		if (what == 99)
			one->pid += 1000;
	}
}

static void by_chance(void)
{
	__u32 i, vm, vcpu;

	begin();
	srand(1);
	for (i = 0; i < THREADS; i++)
		actors[i] = (struct actor){ .tgid = 1 + i % 3, .pid = 100 + i, .vcpu = i / 3 };
	for (i = 0; i < 2000000; i++) {
		now_ns += rand() % 300;
		happens(&actors[rand() % THREADS], rand() % 100);
	}
	for (i = 0; i < THREADS; i++) {
		struct vcpu *vcpu = vcpu_of(actors[i].pid);

		if (vcpu && vcpu->state != IN_GUEST)
			made[actors[i].tgid][actors[i].vcpu]--;
	}
	for (vm = 1; vm <= 3; vm++) {
		assert(!lost(vm));
		for (vcpu = 0; vcpu < 8; vcpu++) {
			struct spent spent = counted(vm, vcpu, 0);

			assert(spent.count == made[vm][vcpu] && spent.count > 1000);
			assert(parts(&spent) == away_ns[vm][vcpu]);
		}
	}
	assert(!lost(0));
	/* No place is two threads'. */
	assert(map_of(&threads)->used + map_of(&left_vcpus)->used ==
	       *(__u32 *)bpf_map_lookup_elem(&given, &(__u32){ PLACES_OF_VCPUS }));
}

/* In turns of VMS VMs with a vCPU each: after the first turn of all, nothing grows. */
#define VMS		1500
#define EXITS_IN_TURN	64

static void many(__u64 exits_of_all)
{
	__u64 made = 0, seen = 0;
	__u32 i, vm, kinds_used = 0;

	begin();
	for (vm = 1; made < exits_of_all || vm > 1; vm = vm % VMS + 1) {
		switched(vm, vm, 1);
		/* It has slept since the last exit of its last turn. */
		for (i = 0; i < EXITS_IN_TURN; i++, made++) {
			enters();
			now_ns += 300;
			exits(0, PORT, 0x40 + i % 16);
			now_ns += 700;
		}
		if (made == VMS * EXITS_IN_TURN)
			kinds_used = map_of(&kinds)->used;
	}
	for (vm = 1; vm <= VMS; vm++) {
		switched(vm, vm, 1);
		enters();
	}
	assert(kinds_used == 16 * VMS && map_of(&kinds)->used == kinds_used);
	assert(map_of(&threads)->used == VMS && map_of(&left_vcpus)->used == 0);
	for (vm = 1; vm <= VMS; vm++) {
		struct spent spent = counted(vm, 0, 0);

		assert(!lost(vm) && spent.count == made / VMS);
		assert(spent.kvm_ns == spent.count * 700);
		seen += spent.count;
	}
	assert(seen == made);
	printf("%llu\n", seen);
}

static void two_turns_of_many_vms(void)
{
	many(2 * VMS * EXITS_IN_TURN);
}

#define RUN(scenario)	(fprintf(stderr, #scenario "\n"), scenario())

/* With a number, only so many exits. */
int main(int argc, char **argv)
{
	if (argc > 1) {
		many(strtoull(argv[1], NULL, 10));
		return 0;
	}
	RUN(an_exec_ends_what_was_open);
	RUN(a_number_that_is_used_again_is_another_thread);
	RUN(an_unseen_switch_leaves_others_alone);
	RUN(a_clock_that_goes_back_costs_nothing);
	RUN(an_interrupt_while_an_exit_is_noted_breaks_no_sum);
	RUN(what_comes_before_an_exit_is_told_of_is_the_exit_s);
	RUN(so_does_none_while_an_entry_is);
	RUN(an_exit_that_changes_its_cpu_leaves_nothing_to_the_next);
	RUN(more_kinds_than_there_is_room_for_are_lost_and_told);
	RUN(more_vms_than_there_is_room_for_are_lost_and_told);
	RUN(more_vcpus_than_there_is_room_for_are_lost_and_told);
	RUN(by_chance);
	RUN(two_turns_of_many_vms);
	return 0;
}
