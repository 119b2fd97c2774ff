/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How long to poll before a halt, learned from the halts before it.
 *
 * To poll for a halt of length b with a window of length T costs b if b <= T,
 * and T + C otherwise, where C is what it costs to block and to wake up.  The
 * window that is chosen is the one that would have cost least for the halts of
 * late: argmin over T of E[min(b, T)] + C * P(b > T).
 *
 * Halts come in phases, so there are two windows: one for a halt that follows
 * a short one, and one for a halt that follows a long one.  Each has its own
 * histogram, in half octaves from C / 16 to 4 * C, whose weights fade.  Where
 * it pays to poll up to T, no more than exp(-T / C) of the halts may be longer,
 * so there is nothing to win beyond.
 *
 * Integers only, no locks, no dependencies: whoever has a window calls this
 * from one context at a time.  All zeroes is the initial state.
 */
#ifndef _LINUX_POLL_WINDOW_H
#define _LINUX_POLL_WINDOW_H

#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* From C / 16 to 4 * C, and one for what is longer */
#define POLL_WINDOW_CLASSES	14
/* What C is in the units of classes */
#define POLL_WINDOW_COST	32
/* No cost is taken to be more than this (in ns): 16 ms */
#define POLL_WINDOW_MAX_COST	(1U << 24)
/* Weights are halved when they sum up to this */
#define POLL_WINDOW_HALTS	128
/* The window is chosen anew after so many halts, and whenever it was wrong */
#define POLL_WINDOW_PERIOD	8

struct poll_window_past {
	u32	ns;
	u8	halts;
	u8	fresh;
	u8	count[POLL_WINDOW_CLASSES];
};

struct poll_window {
	/* After a short halt, and after a long one */
	struct poll_window_past past[2];
	u8	after;
};

/* Halts of a class are shorter than this: 2, 3, 4, 6, 8 ... 96, 128 */
static inline u32 poll_window_edge(unsigned int class)
{
	return class & 1 ? 3U << class / 2 : 2U << class / 2;
}

static inline unsigned int poll_window_class(u64 ns, u32 cost)
{
	unsigned int units, octave;

	if (ns >= 4ULL * cost)
		return POLL_WINDOW_CLASSES - 1;
	units = (u32)ns * POLL_WINDOW_COST / cost;
	if (units < 2)
		return 0;
	octave = fls(units) - 1;
	return 2 * octave - 1 + (units >> (octave - 1) & 1);
}

/* The window of at most @max ns that costs least, if blocking costs @cost ns */
static inline u32 poll_window_best(const struct poll_window_past *p, u32 max, u32 cost)
{
	u32 edge = 0, before, ns, best = 0;
	/* Twice what it costs: a halt is taken for the middle of its class */
	u32 polled = 0, total, least = 2 * p->halts * POLL_WINDOW_COST;
	unsigned int class, longer = p->halts;

	for (class = 0; class < POLL_WINDOW_CLASSES - 1; class++) {
		before = edge;
		edge = poll_window_edge(class);
		ns = edge * cost / POLL_WINDOW_COST;
		if (ns > max)
			break;
		polled += p->count[class] * (before + edge);
		longer -= p->count[class];
		total = polled + 2 * longer * (edge + POLL_WINDOW_COST);
		/* What nobody was seen to need yet is free up to the cost */
		if (total < least || (total == least && edge <= POLL_WINDOW_COST)) {
			least = total;
			best = ns;
		}
	}
	return best;
}

static inline void poll_window_fade(struct poll_window_past *p)
{
	unsigned int class;

	p->halts = 0;
	for (class = 0; class < POLL_WINDOW_CLASSES; class++) {
		p->count[class] >>= 1;
		p->halts += p->count[class];
	}
}

/*
 * A halt took @ns in all.  Returns whether the window was chosen anew.
 */
static inline bool poll_window_note(struct poll_window *w, u64 ns, u32 max, u32 cost)
{
	struct poll_window_past *p = &w->past[w->after];
	bool wrong;

	cost = min(cost, POLL_WINDOW_MAX_COST);
	wrong = p->ns ? ns > p->ns : ns <= min(max, cost);
	w->after = ns > cost;
	if (p->halts >= POLL_WINDOW_HALTS)
		poll_window_fade(p);
	p->count[poll_window_class(ns, cost)]++;
	p->halts++;

	if (++p->fresh < POLL_WINDOW_PERIOD && !wrong)
		return false;
	p->fresh = 0;
	p->ns = poll_window_best(p, max, cost);
	return true;
}

/*
 * How long to poll now.  If a timer ends the halt in @deadline ns at the latest
 * and that is cheaper than to block, there is nothing to guess.
 */
static inline u32 poll_window_limit(const struct poll_window *w, u64 deadline,
				    u32 max, u32 cost)
{
	if (deadline <= min(max, cost))
		return deadline;
	return min(w->past[w->after].ns, max);
}

#endif /* _LINUX_POLL_WINDOW_H */
