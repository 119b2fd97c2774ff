/* SPDX-License-Identifier: GPL-2.0 */
/* Prints the state of a window after each halt that it reads. */
#include <inttypes.h>
#include <stdio.h>

#include <linux/poll_window.h>

int main(void)
{
	struct poll_window window = {};
	const char *halt = "%" SCNu32 "%" SCNu32 "%" SCNu64 "%" SCNu64;
	u32 max, cost, limit;
	u64 deadline, ns;

	while (scanf(halt, &max, &cost, &deadline, &ns) == 4) {
		bool chosen;

		limit = poll_window_limit(&window, deadline, max, cost);
		chosen = poll_window_note(&window, ns, max, cost);
		printf("%u %d %d", limit, chosen, window.after);
		for (int i = 0; i < 2; i++) {
			const struct poll_window_past *p = &window.past[i];

			printf(" %u %u %u", p->ns, p->halts, p->fresh);
			for (int class = 0; class < POLL_WINDOW_CLASSES; class++)
				printf(" %u", p->count[class]);
		}
		putchar('\n');
	}
	return 0;
}
