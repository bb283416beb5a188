/* SPDX-License-Identifier: Apache-2.0 */
/* Is a machine still worth keeping, and if not, what became of it? */
#include "watch.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"

#define GONE_MS 10000 /* times the factor: without an agent and without a reboot */
#define LOOK_MS 10000 /* between two looks at the host's memory */

/* How many processes the host's kernel has killed for want of memory, ever; -1: not known. */
static long long count_oom_kills(void)
{
	return file_number("/proc/vmstat", "oom_kill ");
}

static void look_at_port(struct watch *w)
{
	bool reset = machine_resets(w->machine) != w->resets;

	w->resets = machine_resets(w->machine);
	if (!machine_port_closed(w->machine)) {
		w->closed = CLOCK_NEVER;
		w->rebooted = false;
		return;
	}
	w->rebooted = w->rebooted || reset;
	if (reset || w->closed == CLOCK_NEVER)
		w->closed = clock_ms();
}

/* When the agent is gone, should its port stay as it is. */
static int64_t gone_at(const struct watch *w)
{
	if (w->closed == CLOCK_NEVER)
		return CLOCK_NEVER;
	if (w->rebooted)
		return w->closed + machine_boot_ms(w->machine);
	return w->closed + (int64_t)GONE_MS * accel_time_factor(machine_accel(w->machine));
}

static bool agent_is_gone(const struct watch *w)
{
	return clock_ms() >= gone_at(w);
}

static int64_t watch_due(const void *self)
{
	const struct watch *w = self;
	int64_t gone = gone_at(w);

	return gone < w->look_at ? gone : w->look_at;
}

/* Whether it is over is asked by who waits in the loop. */
static void watch_ready(void *self, short events)
{
	struct watch *w = self;

	(void)events;
	if (clock_ms() < w->look_at)
		return;
	w->oom_kills[0] = w->oom_kills[1];
	w->oom_kills[1] = count_oom_kills();
	w->look_at = clock_in(LOOK_MS);
}

void watch_begin(struct watch *w, struct loop *loop, struct machine *m)
{
	long long n = count_oom_kills();

	*w = (struct watch){ .machine = m,
		.resets = machine_resets(m),
		.closed = CLOCK_NEVER,
		.oom_kills = { n, n },
		.look_at = clock_in(LOOK_MS),
		.loop = loop,
		.source = { .fd = -1, .due = watch_due, .ready = watch_ready, .self = w } };
	loop_add(loop, &w->source);
}

void watch_end(struct watch *w)
{
	if (w->loop)
		loop_remove(w->loop, &w->source);
}

bool watch_over(struct watch *w)
{
	look_at_port(w);
	/* Of a broken channel no more is asked: QEMU's end is waited for where it may be near. */
	return session_broken(machine_session(w->machine)) || agent_is_gone(w) ||
	       machine_state(w->machine) != MACHINE_RUNS;
}

char *watch_story(const struct watch *w)
{
	CLEAN(str) char *story = machine_story(w->machine);

	if (machine_state(w->machine) == MACHINE_RUNS && agent_is_gone(w))
		return xasprintf("the guest's agent is gone: %s", story);
	if (machine_state(w->machine) != MACHINE_DIED || !machine_host_fault(w->machine))
		return str_take(&story);
	if (count_oom_kills() > w->oom_kills[0])
		return xasprintf("the host ran out of memory: %s", story);
	return xasprintf("somebody on the host ended it: %s", story);
}
