// SPDX-License-Identifier: GPL-2.0-only
/*
 * exits ROUNDS: so many CPUIDs, then as many reads of a register of the first
 * PCI device, each by two ports that the VMM has: an address and its data.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define DEVICE "/sys/bus/pci/devices/0000:00:00.0/config"

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 0;
	int config = open(DEVICE, O_RDONLY), i;
	unsigned int a, b, c, d, word;

	if (config < 0)
		return 1;
	for (i = 0; i < rounds; i++) {
		a = 0;
		__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
	}
	for (i = 0; i < rounds; i++) {
		if (pread(config, &word, sizeof(word), 0) != sizeof(word))
			return 2;
	}
	return 0;
}
