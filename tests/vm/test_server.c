/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's duties towards a distribution, and all that grading asks of a machine, in real VMs.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "machine/machine.h"

#define LONG 300000 /* ms: for a boot on a busy host without KVM */

static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

static struct loop loop;
static struct image image;
static struct machine *machine;
static char dir[] = "/tmp/postern-test-XXXXXX";
static struct err err;

static char *below(const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static void start(const char *name)
{
	CLEAN(str) char *overlay = NULL;
	struct machine_spec spec = { .image = &image };

	CHECK(mkdtemp(dir));
	CHECK(loop_init(&loop, false, &err));
	if (!image_open(name, &image, &err))
		SKIP(err.text);
	if (image.disk) {
		overlay = below("overlay");
		CHECK(overlay_create(overlay, image.disk, &err));
		spec.overlay = overlay;
	}
	machine = machine_start(&loop, &spec, &err);
	CHECK(machine);
	if (!machine_wait_hello(machine, clock_in(LONG), &err))
		CHECK_STR(err.text, "HELLO");
}

static void stop(void)
{
	machine_free(machine);
	image_release(&image);
	loop_release(&loop);
	CHECK(dir_remove(dir, &err));
}

static size_t keep(void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct buf *out = self;

	(void)part;
	if (out->len < 65536)
		buf_add(out, untrusted_data, len);
	return len;
}

/* Runs a shell command in the system; its output is borrowed until the next one. */
static struct command_result shell(const char *text, const char **ret_output)
{
	static struct buf out;
	const char *const argv[] = { "/bin/sh", "-c", text, NULL };
	struct command_spec spec = { .argv = argv, .env = env, .output = keep, .self = &out };
	struct command_result result;

	buf_release(&out);
	if (!command_run(machine_session(machine), &spec, clock_in(LONG), &result, &err))
		CHECK_STR(err.text, text);
	*ret_output = buf_text(&out);
	return result;
}

/* The command must succeed and print exactly this. */
static void says(const char *text, const char *wanted)
{
	const char *output;
	struct command_result result = shell(text, &output);

	CHECK_STR(output, wanted);
	CHECK_INT(result.end, COMMAND_EXITED);
	CHECK_INT(result.value, 0);
}

static void answers_ping(void)
{
	CHECK(session_ping(machine_session(machine), clock_in(LONG), NULL, &err));
}

static void is_invisible(void)
{
	says("grep -c ' / / ' /proc/self/mountinfo; grep ' / / ' /proc/self/mountinfo | grep -c "
	     "ext4",
		"1\n1\n");
	says("grep cgroup2 /proc/self/mountinfo | cut -d' ' -f5", "/sys/fs/cgroup\n");
	says("cut -d' ' -f5 /proc/self/mountinfo | grep -Ev '^(/|/(proc|sys|dev|run)(/.*)?)$' || "
	     "true",
		"");
	/* The agent holds no mount of the root: it can be unmounted, remounted, checked. */
	says("grep -c /dev/vda /proc/$(pgrep -f '^@')/mounts || true", "0\n");
	says("ls / | grep -E '^(init|boot.conf|modules|checks|newroot)$' || true", "");
}

static void children_are_ordinary(void)
{
	says("cat /proc/self/oom_score_adj; umask; ls /proc/self/fd | tr '\\n' ' '",
		"0\n0022\n0 1 2 3 ");
	says("grep -E '^(SigBlk|SigIgn|VmLck)' /proc/self/status | tr -d '\\t ' | sed s/kB//",
		"VmLck:0\nSigBlk:0000000000000000\nSigIgn:0000000000000000\n");
	says("readlink /proc/self/ns/mnt /proc/1/ns/mnt | uniq | wc -l", "1\n");
}

/* Each command enters what PID 1 has by then. */
static void follows_the_system(void)
{
	says("mount -o remount,ro,noatime / 2>/dev/null || mount -o remount,noatime /", "");
	says("grep -c ' / ext4 .*noatime' /proc/mounts", "1\n");
	says("mount -o remount,rw,relatime / && touch /root/x && rm /root/x", "");
	says("systemctl daemon-reexec && systemctl is-active nginx", "active\n");
	says("systemctl is-system-running", "running\n");
}

static void outlives_a_memory_hog(void)
{
	const char *output;
	struct command_result result = shell("exec tail /dev/zero", &output);

	CHECK_INT(result.end, COMMAND_SIGNALLED);
	CHECK_INT(result.value, 9);
	answers_ping();
	says("systemctl is-active nginx", "active\n");
}

static void freezes_and_splits(void)
{
	CLEAN(str) char *above = below("above");
	struct session *s = machine_session(machine);
	bool sealed = false;

	CHECK(machine_is_sealed(machine, &sealed, &err) && sealed);
	CHECK(session_prepare(s, 60000, clock_in(LONG), &err));
	CHECK(machine_stop(machine, &err));
	CHECK(machine_split(machine, above, &err));
	CHECK(machine_cont(machine, &err));
	CHECK(session_heal(s, clock_in(LONG), &err));
	says("echo thawed >/root/x && sync && cat /root/x", "thawed\n");
}

static void comes_back_from_a_reboot(void)
{
	struct session *s = machine_session(machine);
	unsigned before = session_greetings(s);
	uint8_t was[16], is[16];
	int64_t until = clock_in(LONG);
	const char *output;

	session_boot_id(s, was);
	(void)shell("systemctl reboot", &output);
	/* It answers until it goes down; what is asked by then may be lost. */
	while (session_greetings(s) == before && clock_ms() < until)
		if (!session_ping(s, clock_in(1000), NULL, &err))
			(void)session_wait_open(s, clock_in(1000), &err);
	CHECK(machine_wait_ready(machine, until, &err));
	session_boot_id(s, is);
	CHECK(memcmp(was, is, 16) != 0);
	CHECK(machine_resets(machine) > 0);
	says("cat /root/x", "thawed\n");
}

static void answers_without_programs(void)
{
	const char *output;

	(void)shell("rm -rf /usr/bin /usr/sbin", &output);
	CHECK_INT(shell("true", &output).end, COMMAND_FAILED);
	answers_ping();
}

TEST_WITHIN(the_agent_serves_a_distribution, 1500)
{
	start("server");
	CHECK(machine_wait_ready(machine, clock_in(LONG), &err));
	is_invisible();
	children_are_ordinary();
	follows_the_system();
	outlives_a_memory_hog();
	freezes_and_splits();
	comes_back_from_a_reboot();
	answers_without_programs();
	CHECK_INT(machine_state(machine), MACHINE_RUNS);
	stop();
}

TEST_WITHIN(the_power_button_is_heard, 700)
{
	const char *const argv[] = { "/bin/sh", "-c", "pkill -9 -f '^@'", NULL };
	struct command_spec spec = { .argv = argv, .env = env };
	struct command *command;
	int64_t until = clock_in(LONG);

	start("server");
	CHECK(machine_wait_ready(machine, clock_in(LONG), &err));
	command = command_start(machine_session(machine), &spec, &err);
	CHECK(command);
	/* No answer comes: the agent is gone, and the button is the only way left. */
	while (session_ping(machine_session(machine), clock_in(5000), NULL, &err))
		CHECK(clock_ms() < until);
	command_free(command);
	if (!machine_powerdown(machine, clock_in(LONG), &err))
		CHECK_STR(err.text, "powered down");
	CHECK_INT(machine_state(machine), MACHINE_OFF);
	stop();
}

TEST_WITHIN(mini_outlives_all_its_processes_and_powers_off, 400)
{
	const char *output;
	int64_t until;

	start("mini");
	(void)shell("kill -9 -1", &output);
	answers_ping();
	says("cat /proc/1/oom_score_adj; ls /sys/class/net", "-1000\nlo\n");
	CHECK(session_poweroff(machine_session(machine), &err));
	until = clock_in(LONG);
	while (machine_state(machine) == MACHINE_RUNS && clock_ms() < until)
		(void)session_ping(machine_session(machine), clock_in(1000), NULL, &err);
	CHECK_INT(machine_state(machine), MACHINE_OFF);
	stop();
}
