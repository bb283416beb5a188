/* SPDX-License-Identifier: Apache-2.0 */
/* Clones as machines: they reboot, and one that has no template that fits is booted. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "machine/internal.h"
#include "machine/start.h"
#include "test.h"

#define LIMIT	 1500
#define LONG_MS	 60000 /* times the accelerator's factor */
#define WORD_MAX 64

static struct clone {
	struct loop loop;
	struct image image;
	struct machine *m;
	char dir[32];
	char *cold;
	unsigned greetings;
} c;

static struct err err;

static void start(const char *image, int memory_mib)
{
	CLEAN(str) char *overlay = NULL;

	(void)snprintf(c.dir, sizeof(c.dir), "/tmp/clone.XXXXXX");
	CHECK(loop_init(&c.loop, false, &err));
	if (!image_open(image, &c.image, &err))
		SKIP(err.text);
	CHECK(mkdtemp(c.dir) != NULL);
	overlay = xasprintf("%s/disk.qcow2", c.dir);
	c.m = machine_begin(&c.loop,
		&(struct start_spec){
			.image = &c.image, .overlay = overlay, .memory_mib = memory_mib },
		&c.cold, &err);
	CHECK_STR(c.m ? "" : err.text, "");
	CHECK(dir_remove(c.dir, &err));
}

static void stop(void)
{
	machine_free(c.m);
	image_release(&c.image);
	free(c.cold);
	loop_release(&c.loop);
}

static int64_t soon(void)
{
	return clock_in((int64_t)LONG_MS * accel_time_factor(machine_accel(c.m)));
}

/* What a command prints, cut short. */
struct word {
	char text[WORD_MAX];
	size_t len;
};

static size_t take(void *self, enum stream_part part, const uint8_t *untrusted, size_t len)
{
	struct word *w = self;
	size_t room = sizeof(w->text) - 1 - w->len, n = len < room ? len : room;

	(void)part;
	memcpy(w->text + w->len, untrusted, n);
	w->len += n;
	return len;
}

static struct command_result shell(const char *text, struct word *said)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	const char *argv[] = { "sh", "-c", text, NULL };
	const struct command_spec spec = { .argv = argv, .env = env, .output = take, .self = said };
	struct command_result result;

	*said = (struct word){ 0 };
	CHECK(command_run(machine_session(c.m), &spec, soon(), &result, &err));
	return result;
}

static bool greeted_again(const void *arg)
{
	const struct clone *clone = arg;

	return session_greetings(machine_session(clone->m)) > clone->greetings &&
	       session_is_open(machine_session(clone->m));
}

static void reboots(const char *image, const char *command)
{
	struct word before, after;

	start(image, 0);
	CHECK_STR(c.cold ? c.cold : "", "");
	(void)shell("touch /tmp/before; cat /proc/sys/kernel/random/boot_id", &before);
	c.greetings = session_greetings(machine_session(c.m));
	CHECK_INT(shell(command, &after).end == COMMAND_EXITED, false);
	if (!greeted_again(&c))
		CHECK(loop_until(&c.loop, greeted_again, &c, soon(), &err));
	CHECK(machine_resets(c.m) > 0);
	CHECK(machine_wait_ready(c.m, soon(), &err));
	(void)shell("cat /proc/sys/kernel/random/boot_id", &after);
	CHECK_INT(after.len, before.len);
	CHECK(strcmp(before.text, after.text) != 0);
	(void)shell("ls /tmp/before 2>/dev/null; echo >/root/file && sync && echo works", &after);
	CHECK_STR(after.text, "works\n");
	stop();
}

TEST_WITHIN(a_clone_without_a_disk_reboots, LIMIT)
{
	/* Its first process is the agent, which leaves that signal alone. */
	reboots("mini", "reboot -f; sleep 1000");
}

TEST_WITHIN(a_clone_with_a_disk_reboots, LIMIT)
{
	reboots("server", "reboot; sleep 1000");
}

TEST_WITHIN(another_size_of_memory_is_booted, LIMIT)
{
	struct word said;

	start("mini", 200);
	CHECK_STR(c.cold, "the template has another size of memory");
	(void)shell("echo works", &said);
	CHECK_STR(said.text, "works\n");
	stop();
}

/* The number that QEMU tells a kernel with a driver for vmgenid. Owned. */
static char *generation(void)
{
	CLEAN(json) struct json *answer = NULL;
	const char *guid;

	start("mini", 0);
	CHECK_STR(c.cold ? c.cold : "", "");
	CHECK(qmp_call(c.m->qmp, "query-vm-generation-id", NULL, soon(), &answer, &err));
	guid = json_get_str(answer, "guid");
	CHECK(guid);
	stop();
	return xstrdup(guid);
}

TEST_WITHIN(each_clone_is_a_generation_of_its_own, LIMIT)
{
	CLEAN(str) char *one = generation();
	CLEAN(str) char *two = generation();

	CHECK(strcmp(one, two) != 0);
}
