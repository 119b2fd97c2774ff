// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads files at one instant.
 *
 *     look FILE...
 *
 * Prints CLOCK_MONOTONIC in ns, and then each file behind a line with its
 * name.  Nothing is printed before all is read.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

static char text[1 << 20];

int main(int argc, char **argv)
{
	struct timespec now;
	size_t length = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "r");

		if (!file || length + strlen(argv[i]) + 16 > sizeof(text))
			return 1;
		length += sprintf(text + length, "@ %s\n", argv[i]);
		length += fread(text + length, 1, sizeof(text) - 1 - length, file);
		fclose(file);
	}
	printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
	fwrite(text, 1, length, stdout);
	return 0;
}
