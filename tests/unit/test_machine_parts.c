/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a machine that need no VM: console, control socket, command line, image. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "machine/console.h"
#include "machine/image.h"
#include "machine/qemu.h"
#include "machine/qmp.h"
#include "machine/seal.h"
#include "test.h"

struct talk {
	struct loop loop;
	int theirs;
};

static int start(struct talk *t)
{
	struct err err;
	int ours;

	CHECK(loop_init(&t->loop, false, &err));
	CHECK(fd_pair(&ours, &t->theirs, &err));
	return ours;
}

static void say(const struct talk *t, const char *text)
{
	struct err err;

	CHECK(fd_write(t->theirs, text, strlen(text), &err));
}

/* Console. */

static void check_panic(const char *first, const char *second, bool wanted)
{
	struct talk t;
	struct err err;
	struct console *c = console_new(&t.loop, start(&t), NULL, &err);

	say(&t, first);
	console_drain(c);
	say(&t, second);
	console_drain(c);
	CHECK_INT(console_panicked(c), wanted);
	console_free(c);
	close(t.theirs);
}

TEST(panic_is_seen_across_pieces)
{
	check_panic("[ 1.0] Kernel panic - not ", "syncing: because\n", true);
	check_panic("KKernel Kernel panic - no", "t syncing\n", true);
	check_panic("Kernel panic - not", " today\n", false);
	check_panic("Kernel panic - not syncing: the rest of", " the li", false);
}

TEST(console_log_is_capped_and_its_end_kept)
{
	CLEAN(str) char *dir = xstrdup("/tmp/console.XXXXXX");
	CLEAN(buf) struct buf log = { 0 };
	CLEAN(str) char *path = NULL;
	CLEAN(str) char *last = NULL;
	char block[4096];
	struct console *c;
	struct talk t;
	struct err err;
	int ours = start(&t);

	CHECK(mkdtemp(dir) != NULL);
	path = xasprintf("%s/log", dir);
	c = console_new(&t.loop, ours, path, &err);
	CHECK(c != NULL);
	memset(block, 'x', sizeof(block));
	block[sizeof(block) - 1] = '\n';
	for (int i = 0; i < 300; i++) {
		CHECK(fd_write(t.theirs, block, sizeof(block), &err));
		console_drain(c);
	}
	say(&t, "the end\n");
	console_drain(c);
	last = console_last(c, 1);
	CHECK_STR(last, "the end");
	console_free(c);
	CHECK(file_read(path, 2 << 20, &log, &err));
	CHECK(log.len > 1 << 20 && log.len < (1 << 20) + 100);
	CHECK(strstr(buf_text(&log), "\n[the rest is not kept") != NULL);
	close(t.theirs);
	CHECK(dir_remove(dir, &err));
}

/* Control socket. The answers are written before they are asked for: ids are 1 for the
 * negotiation, then 2, 3... */

static int resets;

static void on_event(void *self, const char *name, const struct json *data)
{
	(void)self;
	resets += !strcmp(name, "RESET") && json_get_bool(data, "guest", false);
}

TEST(control_answers_events_and_errors)
{
	CLEAN(json) struct json *answer = NULL;
	struct talk t;
	struct qmp *q;
	struct err err;
	int ours = start(&t);

	q = qmp_new(&t.loop, ours, on_event, NULL);
	CHECK(!qmp_greeted(q));
	say(&t, "{\"QMP\": {}}\r\n{\"return\": {}, \"id\": 1}\r\n"
		"{\"event\": \"RESET\", \"data\": {\"guest\": true}}\r\n"
		"{\"return\": {\"late\": true}, \"id\": 1}\r\n{\"return\": 7, \"id\": 2}\r\n"
		"{\"error\": {\"desc\": \"no such thing\"}, \"id\": 3}\r\n");
	CHECK(qmp_call(q, "first", NULL, clock_in(5000), &answer, &err));
	CHECK(json_is_number(answer));
	CHECK_INT(resets, 1);
	/* The refusal came before its question, so it is not the answer to it. */
	say(&t, "{\"error\": {\"desc\": \"no such thing\"}, \"id\": 3}\r\n");
	CHECK(!qmp_call(q, "second", NULL, clock_in(5000), NULL, &err));
	CHECK_STR(err.text, "QEMU refuses second: no such thing");
	close(t.theirs);
	CHECK(qmp_closed(q));
	CHECK(!qmp_call(q, "third", NULL, clock_in(5000), NULL, &err));
	CHECK_INT(err.code, ERR_PEER);
	qmp_free(q);
}

TEST(control_that_talks_nonsense_is_left)
{
	struct talk t;
	struct qmp *q;
	struct err err;
	int ours = start(&t);

	q = qmp_new(&t.loop, ours, on_event, NULL);
	say(&t, "hello\n");
	CHECK(!qmp_call(q, "first", NULL, clock_in(5000), NULL, &err));
	CHECK_INT(err.code, ERR_PEER);
	qmp_free(q);
	close(t.theirs);
}

/* Plays QEMU: one answer per line that comes. */
static void play(int fd, const char *const *answers)
{
	size_t lines = 0;
	struct err err;
	char c;

	while (read(fd, &c, 1) == 1)
		if (c == '\n' && answers[lines])
			fd_write(fd, answers[lines], strlen(answers[lines]), &err), lines++;
	_exit(0);
}

static bool sealed(const char *pci, const char *devices)
{
	CLEAN(str) char *first = xasprintf("{\"return\": %s, \"id\": 2}\n", pci);
	CLEAN(str) char *second = xasprintf("{\"return\": %s, \"id\": 3}\n", devices);
	const char *const answers[] = { "{\"return\": {}, \"id\": 1}\n", first, second,
		"{\"return\": [], \"id\": 4}\n", NULL };
	bool is = false;
	struct talk t;
	struct qmp *q;
	struct err err;
	int ours = start(&t);
	pid_t qemu = fork();

	if (qemu == 0) {
		close(ours);
		play(t.theirs, answers);
	}
	close(t.theirs);
	q = qmp_new(&t.loop, ours, on_event, NULL);
	CHECK(seal_check(q, clock_in(5000), &is, &err));
	qmp_free(q);
	CHECK(waitpid(qemu, NULL, 0) == qemu);
	return is;
}

#define BRIDGE	"{\"class_info\": {\"class\": 1536}}"
#define NETWORK "{\"class_info\": {\"class\": 512}}"
#define BLK	"{\"name\": \"blk\", \"type\": \"child<virtio-blk-pci>\"}"

TEST(seal_is_what_qemu_says)
{
	CHECK(sealed("[{\"devices\": [" BRIDGE "]}]", "[" BLK "]"));
	CHECK(sealed("[{\"devices\": [" BRIDGE "]}]", "[{\"type\": \"string\"}]"));
	CHECK(!sealed("[{\"devices\": [" BRIDGE "," NETWORK "]}]", "[" BLK "]"));
	CHECK(!sealed("[{\"devices\": [{\"class_info\": {\"class\": 1540},"
		      "\"pci_bridge\": {\"devices\": [" NETWORK "]}}]}]",
		"[" BLK "]"));
	CHECK(!sealed("[{\"devices\": [" BRIDGE "]}]", "[{\"type\": \"child<usb-net>\"}]"));
	/* An answer that says nothing proves nothing. */
	CHECK(!sealed("[]", "[]"));
	CHECK(!sealed("[{\"devices\": [{}]}]", "[]"));
}

/* Command line and image. */

static const char *after(char **argv, const char *option)
{
	for (; *argv; argv++)
		if (!strcmp(*argv, option))
			return argv[1];
	return NULL;
}

static char name[] = "x", kernel[] = "/k,1", initramfs[] = "/i", append[] = "quiet a,b";
static const struct image image = {
	.name = name, .kernel = kernel, .initramfs = initramfs, .append = append, .memory_mib = 256
};

TEST(command_line_has_no_network_and_explicit_formats)
{
	const struct machine_spec spec = { .image = &image, .overlay = "/tmp/a,b\".qcow2" };
	char **argv = qemu_command(&spec, ACCEL_TCG, &(struct qemu_fds){ 10, 11, 12 });
	CLEAN(json) struct json *disk = NULL;
	struct err err;

	CHECK(after(argv, "-nodefaults") && after(argv, "-no-user-config"));
	CHECK(!after(argv, "-netdev") && !after(argv, "-nic") && !after(argv, "-net"));
	CHECK(!after(argv, "-drive") && !after(argv, "-no-reboot"));
	CHECK_STR(after(argv, "-accel"), "tcg");
	CHECK_STR(after(argv, "-m"), "256");
	CHECK_STR(after(argv, "-kernel"), "/k,1");
	CHECK_STR(after(argv, "-append"), "quiet a,b");
	CHECK(strstr(after(argv, "-sandbox"), "spawn=deny") != NULL);
	disk = json_parse(after(argv, "-blockdev"), strlen(after(argv, "-blockdev")), &err);
	CHECK_STR(json_get_str(disk, "driver"), "qcow2");
	CHECK_STR(json_get_str(json_get(disk, "file"), "filename"), "/tmp/a,b\".qcow2");
	qemu_command_free(argv);
}

TEST(command_line_under_kvm)
{
	const struct machine_spec spec = { .image = &image, .memory_mib = 300 };
	char **argv = qemu_command(&spec, ACCEL_KVM, &(struct qemu_fds){ 10, 11, 12 });

	CHECK_STR(after(argv, "-accel"), "kvm");
	CHECK_STR(after(argv, "-cpu"), "host");
	CHECK_STR(after(argv, "-m"), "300");
	CHECK(!after(argv, "-blockdev"));
	qemu_command_free(argv);
}

static void write_image(const char *home, const char *manifest)
{
	static const char *const files[] = { "kernel", "initramfs", "disk.qcow2" };
	CLEAN(str) char *dir = xasprintf("%s/images/one", home);
	CLEAN(str) char *json = xasprintf("%s/image.json", dir);
	struct err err;

	CHECK(dir_make(dir, &err));
	CHECK(file_write(json, manifest, strlen(manifest), &err));
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		CLEAN(str) char *file = xasprintf("%s/%s", dir, files[i]);

		CHECK(file_write(file, "x", 1, &err));
	}
}

TEST(image_is_read_and_incomplete_ones_are_refused)
{
	CLEAN(str) char *home = xstrdup("/tmp/home.XXXXXX");
	CLEAN(image) struct image got = { 0 };
	struct err err;

	CHECK(mkdtemp(home) != NULL);
	setenv("POSTERN_HOME", home, 1);
	CHECK(!image_open("one", &got, &err));
	CHECK(strstr(err.text, "make images") != NULL);
	CHECK(!image_open("../one", &got, &err));
	write_image(home,
		"{\"name\": \"one\", \"recipe\": \"abc\", \"kernel\": \"kernel\","
		"\"initramfs\": \"initramfs\", \"disk\": \"disk.qcow2\", \"memory_mib\": 512,"
		"\"append\": \"quiet\", \"ready\": [\"a\", \"b\"]}");
	CHECK(image_open("one", &got, &err));
	CHECK_INT(got.memory_mib, 512);
	CHECK_STR(got.ready[1], "b");
	CHECK(!got.ready[2]);
	CHECK(got.disk[0] == '/');
	write_image(home, "{\"name\": \"one\", \"recipe\": \"abc\", \"kernel\": \"kernel\","
			  "\"initramfs\": \"nothing\", \"disk\": null, \"memory_mib\": 512, "
			  "\"append\": \"\"}");
	CHECK(!image_open("one", &got, &err));
	CHECK(dir_remove(home, &err));
}

TEST(images_that_are_there_are_named)
{
	CLEAN(str) char *home = xstrdup("/tmp/home.XXXXXX");
	CLEAN(image) struct image got = { 0 };
	CLEAN(str) char *other = NULL;
	struct err err;

	CHECK(mkdtemp(home) != NULL);
	setenv("POSTERN_HOME", home, 1);
	write_image(home, "{}");
	CHECK(!image_open("tow", &got, &err));
	CHECK_STR(err.text, "there is no image tow, only one: `make images` builds the rest");
	other = xasprintf("%s/images/two", home);
	CHECK(dir_make(other, &err));
	CHECK(!image_open("tow", &got, &err));
	CHECK_STR(err.text, "there is no image tow, only one: `make images` builds the rest");
	free(other);
	other = xasprintf("%s/images/two/image.json", home);
	CHECK(file_write(other, "{}", 2, &err));
	CHECK(!image_open("tow", &got, &err));
	CHECK_STR(err.text, "there is no image tow; there are one, two");
	CHECK(dir_remove(home, &err));
}
