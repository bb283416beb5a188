/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a QEMU that is broken into can reach. The test plays it over the control socket, which can
 * ask for nearly all that its code could do, and shows each time that the same works for a QEMU
 * that is not confined.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "machine/internal.h"
#include "machine/qemu.h"
#include "test.h"

#define LIMIT  600
#define SOON   60000
#define MEMORY 128

/* Who refuses it. */
enum layer {
	LANDLOCK, /* the file is not this machine's */
	CALLS,	  /* the filter of system calls: no sockets */
	SANDBOX,  /* QEMU's own filter: no programs */
	DEVICES,  /* the machine has no such device, confined or not */
};

/* In the arguments @ is a folder that is not the machine's, # a TCP port that listens. */
struct attack {
	const char *name;
	enum layer by;
	const char *command, *arguments;
};

static const struct attack attacks[] = {
	{ "a file of root", LANDLOCK, "blockdev-add",
		"{'node-name':'shadow','driver':'file','filename':'/etc/"
		"shadow','read-only':true}" },
	{ "another machine's disk", LANDLOCK, "blockdev-add",
		"{'node-name':'other','driver':'qcow2','file':{'driver':'file','filename':"
		"'@/disk.qcow2'}}" },
	{ "another machine's memory", LANDLOCK, "object-add",
		"{'qom-type':'memory-backend-file','id':'other','size':1048576,'mem-path':"
		"'@/memory','share':true}" },
	{ "a new file for memory", LANDLOCK, "object-add",
		"{'qom-type':'memory-backend-file','id':'new','size':1048576,'mem-path':"
		"'@/new-memory','share':true}" },
	{ "a new disk", LANDLOCK, "blockdev-snapshot-sync",
		"{'node-name':'disk','snapshot-file':'@/new.qcow2','snapshot-node-name':'new'}" },
	{ "the guest's memory into a file", LANDLOCK, "dump-guest-memory",
		"{'paging':false,'protocol':'file:@/dump'}" },
	{ "a piece of it", LANDLOCK, "memsave", "{'val':0,'size':16,'filename':'@/memsave'}" },
	{ "a physical piece of it", LANDLOCK, "pmemsave",
		"{'val':0,'size':16,'filename':'@/pmemsave'}" },
	{ "a log", LANDLOCK, "human-monitor-command", "{'command-line':'logfile @/log'}" },
	{ "a file that grows", LANDLOCK, "chardev-add",
		"{'id':'file','backend':{'type':'file','data':{'out':'@/grows'}}}" },
	{ "a terminal", LANDLOCK, "chardev-add",
		"{'id':'pty','backend':{'type':'pty','data':{}}}" },
	{ "a picture of the screen", DEVICES, "screendump", "{'filename':'@/screen'}" },
	{ "a TCP port", CALLS, "chardev-add",
		"{'id':'tcp-port','backend':{'type':'socket','data':{'addr':{'type':'inet','data':"
		"{'host':'127.0.0.1','port':'0'}},'server':true,'wait':false}}}" },
	{ "a TCP connection", CALLS, "chardev-add",
		"{'id':'tcp','backend':{'type':'socket','data':{'addr':{'type':'inet','data':"
		"{'host':'127.0.0.1','port':'#'}},'server':false}}}" },
	{ "another machine's socket", CALLS, "chardev-add",
		"{'id':'unix','backend':{'type':'socket','data':{'addr':{'type':'unix','data':"
		"{'path':'@/socket'}},'server':false}}}" },
	{ "an abstract socket", CALLS, "chardev-add",
		"{'id':'abstract','backend':{'type':'socket','data':{'addr':{'type':'unix','data':"
		"{'path':'postern-test-nobody','abstract':true}},'server':true,'wait':false}}}" },
	{ "a UDP port", CALLS, "chardev-add",
		"{'id':'udp','backend':{'type':'udp','data':{'remote':{'type':'inet','data':"
		"{'host':'127.0.0.1','port':'9'}}}}}" },
	{ "a disk to the world", CALLS, "nbd-server-start",
		"{'addr':{'type':'inet','data':{'host':'127.0.0.1','port':'0'}}}" },
	{ "a network for the guest", CALLS, "netdev_add",
		"{'type':'user','id':'net','hostfwd':[{'str':'tcp:127.0.0.1:0-:22'}]}" },
};

/* Whether these were carried out shows later. */
static const struct attack migrations[] = {
	{ "memory over TCP", CALLS, "migrate", "{'uri':'tcp:127.0.0.1:#'}" },
	{ "memory to another's socket", CALLS, "migrate", "{'uri':'unix:@/socket'}" },
	{ "a program", SANDBOX, "migrate", "{'uri':'exec:cat >@/program'}" },
};

static struct victim {
	struct loop loop;
	struct image image;
	char dir[32], outside[32]; /* of the machine, of others */
	char *overlay;
	int tcp, unix_socket, port;

	struct machine *m; /* as postern starts it; NULL: without any confinement */
	struct process *qemu;
	struct console *console;
	int channel;
	struct qmp *qmp;
	enum migration migration, *progress;
} v;

static struct err err;

static int listen_at(const struct sockaddr *name, socklen_t len, int domain)
{
	int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(fd >= 0 && bind(fd, name, len) == 0 && listen(fd, 8) == 0);
	return fd;
}

/* What belongs to others: sockets that listen, a disk, memory. */
static void make_outside(void)
{
	struct sockaddr_in inet = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(inet);
	CLEAN(str) char *disk = NULL, *memory = NULL;

	strcpy(v.outside, "/tmp/others.XXXXXX");
	CHECK(mkdtemp(v.outside) != NULL);
	disk = xasprintf("%s/disk.qcow2", v.outside);
	memory = xasprintf("%s/memory", v.outside);
	CHECK(overlay_create(disk, v.image.disk, &err));
	CHECK(file_write(memory, "secret", 6, &err));
	CHECK(truncate(memory, 1 << 20) == 0);
	(void)snprintf(name.sun_path, sizeof(name.sun_path), "%s/socket", v.outside);
	v.unix_socket = listen_at((struct sockaddr *)&name, sizeof(name), AF_UNIX);
	v.tcp = listen_at((struct sockaddr *)&inet, sizeof(inet), AF_INET);
	CHECK(getsockname(v.tcp, (struct sockaddr *)&inet, &len) == 0);
	v.port = ntohs(inet.sin_port);
}

static void on_event(void *self, const char *name, const struct json *data)
{
	struct victim *victim = self;

	if (!strcmp(name, "MIGRATION"))
		migration_event(&victim->migration, data);
}

static void start_confined(const struct machine_spec *spec)
{
	v.m = machine_start_on(&v.loop, spec, ACCEL_TCG, &err);
	CHECK_STR(v.m ? "" : err.text, "");
	v.qmp = v.m->qmp;
	v.progress = &v.m->migration;
}

/* The same QEMU, without its own filter and without what we take away. */
static void start_free(const struct machine_spec *spec)
{
	CLEAN(fd) int control = -1, console = -1, channel = -1;
	struct qemu_fds fds;
	char **argv;
	int ours;

	CHECK(fd_pair(&ours, &control, &err));
	v.qmp = qmp_new(&v.loop, ours, on_event, &v);
	v.progress = &v.migration;
	CHECK(fd_pair(&ours, &console, &err));
	v.console = console_new(&v.loop, ours, NULL, &err);
	CHECK(fd_pair(&v.channel, &channel, &err));
	fds = (struct qemu_fds){ control, channel, console };
	argv = qemu_command(spec, ACCEL_TCG, &fds);
	for (char **arg = argv; *arg; arg++)
		if (!strncmp(*arg, "on,obsolete=", 12))
			strcpy(*arg, "off");
	v.qemu = process_start(&(struct process_spec){ .argv = (const char *const *)argv,
				       .stdio = { -1, -1, -1 },
				       .keep = (const int[]){ control, channel, console, -1 } },
		&err);
	CHECK_STR(v.qemu ? "" : err.text, "");
	qemu_command_free(argv);
}

static void prepare(void)
{
	CHECK(loop_init(&v.loop, false, &err));
	if (!image_open("server", &v.image, &err))
		SKIP(err.text);
	strcpy(v.dir, "/tmp/machine.XXXXXX");
	CHECK(mkdtemp(v.dir) != NULL);
	v.overlay = xasprintf("%s/disk.qcow2", v.dir);
	CHECK(overlay_create(v.overlay, v.image.disk, &err));
	make_outside();
}

static void launch(bool confined)
{
	const struct machine_spec spec = {
		.image = &v.image, .overlay = v.overlay, .memory_mib = MEMORY
	};

	if (confined)
		start_confined(&spec);
	else
		start_free(&spec);
	CHECK_STR(qmp_call(v.qmp, "query-status", NULL, clock_in(SOON), NULL, &err) ? "" : err.text,
		"");
}

static void start(bool confined)
{
	prepare();
	launch(confined);
}

static void stop(void)
{
	machine_free(v.m);
	process_free(v.qemu);
	if (!v.m) {
		qmp_free(v.qmp);
		console_free(v.console);
		fd_close(&v.channel);
	}
	fd_close(&v.tcp);
	fd_close(&v.unix_socket);
	free(v.overlay);
	image_release(&v.image);
	loop_release(&v.loop);
	CHECK(dir_remove(v.dir, &err));
	CHECK(dir_remove(v.outside, &err));
}

/* Carried out, as far as QEMU says. */
static bool attack(const struct attack *a)
{
	CLEAN(buf) struct buf text = { 0 };
	CLEAN(json) struct json *answer = NULL;
	const char *said;

	for (const char *c = a->arguments; *c; c++)
		if (*c == '@')
			buf_str(&text, v.outside);
		else if (*c == '#')
			buf_printf(&text, "%d", v.port);
		else
			buf_add(&text, *c == '\'' ? "\"" : c, 1);
	err.text[0] = 0;
	if (!qmp_call(v.qmp, a->command, json_parse(text.data, text.len, &err), clock_in(SOON),
		    &answer, &err))
		return false;
	/* The monitor for people says what went wrong as its answer. */
	said = json_text(answer);
	(void)snprintf(err.text, sizeof(err.text), "%s", said ? said : "");
	return !err.text[0];
}

TEST_WITHIN(nothing_of_the_host_is_reached, LIMIT)
{
	CLEAN(str) char *script = NULL;
	const struct confinement *c;

	start(true);
	c = machine_confinement(v.m);
	if (c->why[CONFINE_FILES] || c->why[CONFINE_CALLS])
		SKIP("this kernel lacks Landlock or seccomp");
	for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++) {
		bool done = attack(&attacks[i]);

		printf("# %s: %s\n", attacks[i].name, done ? "DONE" : err.text);
		CHECK(!done);
		CHECK(strstr(err.text, "Permission denied") || strstr(err.text, "no console") ||
			strstr(err.text, "host forwarding rule"));
	}
	script = xasprintf(
		"test \"$(ls -A %s | tr '\n' ' ')\" = 'disk.qcow2 memory socket '", v.outside);
	CHECK_SHELL(script);
	stop();
}

/* Those attacks are real. */
TEST_WITHIN(without_confinement_all_of_it_is_reached, LIMIT)
{
	start(false);
	for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++) {
		if (attacks[i].by == DEVICES || (strstr(attacks[i].arguments, "/etc/shadow") &&
							access("/etc/shadow", R_OK) < 0))
			continue;
		if (!attack(&attacks[i])) {
			printf("# %s\n", attacks[i].name);
			CHECK_STR(err.text, "");
		}
	}
	stop();
}

static bool somebody_came(void)
{
	struct pollfd fds[] = { { .fd = v.tcp, .events = POLLIN },
		{ .fd = v.unix_socket, .events = POLLIN } };

	return poll(fds, 2, 0) > 0;
}

static bool migration_shows(const void *arg)
{
	(void)arg;
	return *v.progress != MIGRATION_NONE || qmp_closed(v.qmp) || somebody_came();
}

/* Did anything leave QEMU? */
static bool migrate(const struct attack *a)
{
	static const struct attack events = { .command = "migrate-set-capabilities",
		.arguments = "{'capabilities':[{'capability':'events','state':true}]}" };
	CLEAN(str) char *file = xasprintf("%s/program", v.outside);
	bool came;

	(void)attack(&events);
	*v.progress = MIGRATION_NONE;
	if (!attack(a))
		return false;
	CHECK(loop_until(&v.loop, migration_shows, NULL, clock_in(SOON), &err));
	came = somebody_came();
	return came || file_exists(file);
}

TEST_WITHIN(memory_stays_inside, LIMIT)
{
	for (size_t i = 0; i < sizeof(migrations) / sizeof(*migrations); i++) {
		start(true);
		printf("# %s\n", migrations[i].name);
		CHECK(!migrate(&migrations[i]));
		stop();
	}
}

TEST_WITHIN(without_confinement_memory_leaves, LIMIT)
{
	for (size_t i = 0; i < sizeof(migrations) / sizeof(*migrations); i++) {
		start(false);
		printf("# %s\n", migrations[i].name);
		CHECK(migrate(&migrations[i]));
		stop();
	}
}

/* From here on a system call fails in this test and in all that it starts. */
static void lack(unsigned call, unsigned why)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | why),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = 4, .filter = code };

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* The one measure is missing, and told; the machine starts. */
static void only_lacks(enum measure measure, const char *what)
{
	CLEAN(str) char *text = NULL;
	const struct confinement *c;

	start(true);
	c = machine_confinement(v.m);
	for (enum measure i = 0; i < CONFINE_MEASURES; i++)
		if (i != measure && c->why[i])
			CHECK_STR(confine_name(i), "in force");
	CHECK(c->why[measure] != 0);
	text = confinement_text(c, measure);
	printf("# %s\n", text);
	CHECK(strstr(text, what) != NULL);
	stop();
}

TEST_WITHIN(a_kernel_without_landlock_is_told, LIMIT)
{
	lack(SYS_landlock_create_ruleset, ENOSYS);
	only_lacks(CONFINE_FILES, "Function not implemented");
}

TEST_WITHIN(landlock_that_is_switched_off_is_told, LIMIT)
{
	lack(SYS_landlock_create_ruleset, EOPNOTSUPP);
	only_lacks(CONFINE_FILES, "not supported");
}

TEST_WITHIN(a_host_without_namespaces_is_told, LIMIT)
{
	lack(SYS_unshare, EPERM);
	only_lacks(CONFINE_NETWORK, "not permitted");
}

/* What the kernel says of QEMU. */
TEST_WITHIN(the_kernel_agrees, LIMIT)
{
	CLEAN(str) char *script = NULL;

	start(true);
	script = xasprintf("pid=$(pgrep -P %d -f %s) && cd /proc/$pid &&"
			   " grep -qx 'NoNewPrivs:\t1' status &&"
			   " grep -qx 'Seccomp_filters:\t2' status &&"
			   " grep -qE '^CapEff:\t000000000000000[02]$' status &&"
			   " grep -qE '^Max core file size +0 +0' limits &&"
			   " grep -qE '^Max open files +512 +512' limits &&"
			   " grep -qE '^Max file size +[0-9]+ +[0-9]+' limits &&"
			   " grep -qE '^Max address space +[0-9]+ +[0-9]+' limits &&"
			   " test $(readlink ns/net) != $(readlink /proc/self/ns/net)",
		(int)getpid(), v.overlay);
	CHECK_SHELL(script);
	stop();
}

/* A broken QEMU writes into the header of its disk what the next one is to open. */
static void point_disk_elsewhere(void)
{
	CLEAN(str) char *other = NULL;

	prepare();
	other = xasprintf("%s/disk.qcow2", v.outside);
	CHECK(overlay_create(v.overlay, other, &err));
}

TEST_WITHIN(a_disk_that_names_another_leads_nowhere, LIMIT)
{
	struct machine_spec spec = { .image = &v.image, .memory_mib = MEMORY };
	CLEAN(str) char *story = NULL;

	point_disk_elsewhere();
	spec.overlay = v.overlay;
	start_confined(&spec);
	CHECK(!qmp_call(v.qmp, "query-status", NULL, clock_in(SOON), NULL, &err));
	story = machine_story(v.m);
	CHECK(strstr(story, "QEMU ended with status 1 and said: ") && strstr(story, "-blockdev"));
	stop();
}

TEST_WITHIN(without_confinement_it_leads_there, LIMIT)
{
	point_disk_elsewhere();
	launch(false);
	stop();
}

static bool host_failed(const void *arg)
{
	(void)arg;
	return machine_host_fault(v.m) != NULL;
}

TEST_WITHIN(a_write_that_fails_is_the_hosts_fault, LIMIT)
{
	CLEAN(str) char *story = NULL;

	prepare();
	lack(SYS_pwrite64, EIO);
	lack(SYS_pwritev, EIO);
	launch(true);
	CHECK(loop_until(&v.loop, host_failed, NULL, clock_in(LIMIT * 500), &err));
	story = machine_story(v.m);
	CHECK_STR(machine_host_fault(v.m), "the host's disk failed to be read or written: see the "
					   "host's log and run it again");
	CHECK(strstr(story, "stands still") != NULL);
	stop();
}
