/* SPDX-License-Identifier: Apache-2.0 */
/* One running VM. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "qemu.h"
#include "seal.h"

#define ANSWER_MS  30000 /* of the control socket */
#define HEAL_MS	   40	 /* there and back: the clock is off by less */
#define HEALS	   5
#define REFUSED_MS 2000 /* from a state that QEMU refuses to its end */

static void on_event(void *self, const char *name, const struct json *data)
{
	struct machine *m = self;
	bool by_guest = json_get_bool(data, "guest", false);
	const char *port = json_get_str(data, "id");
	const char *action = json_get_str(data, "action");

	if (!strcmp(name, "RESET") && by_guest) {
		m->resets++;
		console_forget_panic(m->console);
	} else if (!strcmp(name, "SHUTDOWN")) {
		m->ended_from_outside = !by_guest;
	} else if (!strcmp(name, "VSERPORT_CHANGE") && port && !strcmp(port, QEMU_CHANNEL_PORT)) {
		m->port_closed = !json_get_bool(data, "open", false);
	} else if (!strcmp(name, "BLOCK_IO_ERROR") && action && !strcmp(action, "stop")) {
		m->disk_full = m->disk_full || json_get_bool(data, "nospace", false);
		m->disk_broken = !m->disk_full;
	} else if (!strcmp(name, "MIGRATION")) {
		migration_event(&m->migration, data);
	}
}

static short ending_wants(const void *self)
{
	const struct machine *m = self;

	return process_ended(m->qemu, NULL) ? 0 : POLLIN;
}

static void ending_ready(void *self, short events)
{
	struct machine *m = self;

	(void)events;
	process_ended(m->qemu, NULL);
}

/* The ends of the descriptors that QEMU inherits; open only until it runs. */
struct inherited {
	int control, channel, console, words;
};

static void inherited_clean(struct inherited *fds)
{
	fd_close(&fds->control);
	fd_close(&fds->channel);
	fd_close(&fds->console);
	fd_close(&fds->words);
}

static bool make_ends(struct machine *m, const char *log, struct inherited *theirs, struct err *err)
{
	int ours;

	if (!fd_pair(&ours, &theirs->console, err))
		return false;
	m->console = console_new(m->loop, ours, log, err);
	if (!m->console || !fd_pair(&ours, &theirs->words, err))
		return false;
	m->words = console_new(m->loop, ours, NULL, err);
	if (!fd_pair(&ours, &theirs->control, err))
		return false;
	m->qmp = qmp_new(m->loop, ours, on_event, m);
	if (!fd_pair(&ours, &theirs->channel, err))
		return false;
	m->session = session_new(m->loop, ours);
	return true;
}

static bool start_qemu(struct machine *m, const struct machine_spec *spec,
	const struct inherited *theirs, struct err *err)
{
	const struct qemu_fds fds = { theirs->control, theirs->channel, theirs->console };
	const int keep[] = { theirs->control, theirs->channel, theirs->console,
		memory_is_given(spec) ? spec->memory_fd : -1, -1 };
	CLEAN(confine) struct confine *confine = confine_new(spec, m->accel);
	char **argv = qemu_command(spec, m->accel, &fds);

	m->qemu = process_start(&(struct process_spec){ .argv = (const char *const *)argv,
					.package = QEMU_PACKAGE,
					.stdio = { -1, theirs->words, theirs->words },
					.keep = keep,
					.enter = confine_enter,
					.self = confine },
		err);
	qemu_command_free(argv);
	if (!m->qemu)
		return false;
	confine_told(confine, &m->confinement);
	m->ending = (struct source){
		.fd = process_fd(m->qemu), .wants = ending_wants, .ready = ending_ready, .self = m
	};
	loop_add(m->loop, &m->ending);
	return true;
}

struct machine *machine_start_on(
	struct loop *loop, const struct machine_spec *spec, enum accel accel, struct err *err)
{
	CLEAN(inherited) struct inherited theirs = { -1, -1, -1, -1 };
	struct machine *m = xcalloc(1, sizeof(*m));

	*m = (struct machine){ .loop = loop, .image = spec->image, .accel = accel };
	if (make_ends(m, spec->console_log, &theirs, err) && start_qemu(m, spec, &theirs, err))
		return m;
	machine_free(m);
	return NULL;
}

struct machine *machine_start(struct loop *loop, const struct machine_spec *spec, struct err *err)
{
	enum accel accel;
	const char *why;

	if (!accel_choose(loop, &accel, &why, err))
		return NULL;
	return machine_start_on(loop, spec, accel, err);
}

void machine_free(struct machine *m)
{
	if (!m)
		return;
	loop_remove(m->loop, &m->ending);
	process_free(m->qemu);
	session_free(m->session);
	qmp_free(m->qmp);
	console_free(m->words);
	console_free(m->console);
	free(m);
}

struct session *machine_session(struct machine *m)
{
	return m->session;
}

enum accel machine_accel(const struct machine *m)
{
	return m->accel;
}

const struct confinement *machine_confinement(const struct machine *m)
{
	return &m->confinement;
}

int64_t machine_cpu_ms(const struct machine *m)
{
	return process_cpu_ms(m->qemu);
}

unsigned machine_resets(const struct machine *m)
{
	return m->resets;
}

bool machine_port_closed(const struct machine *m)
{
	return m->port_closed;
}

bool machine_is_sealed(struct machine *m, bool *ret_sealed, struct err *err)
{
	return seal_check(m->qmp, clock_in(ANSWER_MS), ret_sealed, err) ||
	       machine_fail(m, "QEMU does not say which devices it has", err);
}

bool machine_prove_sealed(struct machine *m, struct err *err)
{
	bool sealed;

	if (!machine_is_sealed(m, &sealed, err))
		return false;
	return sealed ||
	       err_set(err, ERR_DENIED,
		       "this QEMU gave the machine a network device or another that it was not "
		       "asked for: look for a wrapper of qemu-system-x86_64 in PATH");
}

bool machine_stop(struct machine *m, struct err *err)
{
	return qmp_call(m->qmp, "stop", NULL, clock_in(ANSWER_MS), NULL, err);
}

bool machine_cont(struct machine *m, struct err *err)
{
	return qmp_call(m->qmp, "cont", NULL, clock_in(ANSWER_MS), NULL, err);
}

/* An empty file, which QEMU gets as a descriptor: it opens no new ones by itself. */
static bool give_file(struct machine *m, const char *path, unsigned set, struct err *err)
{
	CLEAN(fd) int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		return err_errno(err, "%s", path);
	return qmp_give_file(m->qmp, set, fd, clock_in(ANSWER_MS), err);
}

bool machine_split(struct machine *m, const char *new_overlay, struct err *err)
{
	const unsigned set = m->splits + 1;
	CLEAN(str) char *file = xasprintf("/dev/fdset/%u", set);
	CLEAN(str) char *to = xasprintf("layer%u", set);
	CLEAN(str) char *from = NULL;
	struct json *arguments;

	if (!give_file(m, new_overlay, set, err))
		return err_in(err, "splitting the disk");
	from = m->splits ? xasprintf("layer%u", m->splits) : xstrdup(QEMU_DISK_NODE);
	arguments = json_object();
	json_set_str(arguments, "node-name", from);
	json_set_str(arguments, "snapshot-file", file);
	json_set_str(arguments, "snapshot-node-name", to);
	json_set_str(arguments, "format", "qcow2");
	json_set_str(arguments, "mode", "absolute-paths");
	if (!qmp_call(m->qmp, "blockdev-snapshot-sync", arguments, clock_in(ANSWER_MS), NULL, err))
		return err_in(err, "splitting the disk");
	m->splits++;
	return true;
}

static bool ended(const void *arg)
{
	const struct machine *m = arg;

	return process_ended(m->qemu, NULL);
}

bool machine_powerdown(struct machine *m, int64_t deadline, struct err *err)
{
	if (ended(m))
		return true;
	if (!qmp_call(m->qmp, "system_powerdown", NULL, clock_in(ANSWER_MS), NULL, err))
		return ended(m);
	return loop_until(m->loop, ended, m, deadline, err) ||
	       err_in(err, "waiting for the guest to power off");
}

bool machine_save(struct machine *m, struct buf *ret_state, int64_t deadline, struct err *err)
{
	return state_save(m->loop, m->qmp, &m->migration, ret_state, deadline, err) ||
	       machine_fail(m, "the state of the machine can't be saved", err);
}

bool machine_copy_out(struct machine *m, int file, int64_t max, int64_t deadline, struct err *err)
{
	static const char what[] = "the machine can't be copied";

	if (whole_save(m->loop, m->qmp, &m->migration, file, max, deadline, err))
		return true;
	/* One that lives has no part in it. */
	return machine_state(m) == MACHINE_RUNS ? err_in(err, what) : machine_fail(m, what, err);
}

/* A QEMU that refuses a state ends by itself, and what it says last is the reason. */
static bool refused(struct machine *m, struct err *err)
{
	if (err->code == ERR_SYSTEM)
		(void)process_wait(m->qemu, REFUSED_MS);
	return machine_fail(m, "the saved state can't be loaded", err);
}

bool machine_copy_in(struct machine *m, int file, int64_t deadline, struct err *err)
{
	return whole_load(m->loop, m->qmp, &m->migration, file, deadline, err) || refused(m, err);
}

/* The clock is late by the time that HEAL was on its way, which is long while a machine wakes up on
 * a busy host: then it is said again. */
bool machine_heal(struct machine *m, int64_t deadline, struct err *err)
{
	for (int i = 0; i < HEALS; i++) {
		int64_t sent = clock_ms();

		if (!session_heal(m->session, deadline, err))
			return false;
		if (clock_ms() - sent <= HEAL_MS)
			break;
	}
	return true;
}

bool machine_wake(struct machine *m, const struct buf *state, int64_t deadline, struct err *err)
{
	if (!state_load(m->loop, m->qmp, &m->migration, state, deadline, err))
		return refused(m, err);
	return machine_prove_sealed(m, err) && machine_cont(m, err) &&
	       machine_wait_hello(m, deadline, err) && machine_heal(m, deadline, err);
}
