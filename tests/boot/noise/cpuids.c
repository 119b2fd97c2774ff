// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpuids ROUNDS: how long a CPUID takes by the TSC, which KVM emulates: the
 * shortest, and the one that half of them do not exceed.
 */
#include <stdio.h>
#include <stdlib.h>

static unsigned long tsc(void)
{
	unsigned int low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (unsigned long)high << 32 | low;
}

static int compare(const void *a, const void *b)
{
	unsigned long one = *(const unsigned long *)a, other = *(const unsigned long *)b;

	return (one > other) - (one < other);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1, i;
	unsigned long *took = calloc(rounds, sizeof(*took));
	unsigned int a, b, c, d;

	if (!took || rounds < 1)
		return 1;
	for (i = 0; i < rounds; i++) {
		unsigned long begin = tsc();

		a = 0;
		__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
		took[i] = tsc() - begin;
	}
	qsort(took, rounds, sizeof(*took), compare);
	printf("%lu %lu\n", took[0], took[rounds / 2]);
	return 0;
}
