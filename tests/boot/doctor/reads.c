// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only program of a guest: it reads its disk again and again, and waits for
 * a millisecond between.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

int main(void)
{
	void *page;
	int disk;

	mount("none", "/dev", "devtmpfs", 0, NULL);
	disk = open("/dev/vda", O_RDONLY | O_DIRECT);
	if (disk < 0 || posix_memalign(&page, 4096, 4096))
		return 1;
	printf("reads\n");
	fflush(stdout);
	for (;;) {
		if (pread(disk, page, 4096, 0) != 4096)
			return 1;
		usleep(1000);
	}
}
