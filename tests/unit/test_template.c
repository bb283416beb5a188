/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of templates that need no VM: inputs, files, the way of a state out of QEMU and into
 * it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "machine/migrate.h"
#include "machine/template_folder.h"
#include "machine/template_key.h"
#include "machine/template_list.h"
#include "machine/template_pages.h"
#include "test.h"

static struct err err;
static char scratch[] = "/tmp/template.XXXXXX";

static void enter(void)
{
	CHECK(mkdtemp(scratch) != NULL);
	CHECK(setenv("POSTERN_HOME", scratch, 1) == 0);
}

static void leave(void)
{
	CHECK(dir_remove(scratch, &err));
}

static void put(const char *path, const char *text)
{
	CHECK(file_write(path, text, strlen(text), &err));
}

/* Inputs. */

static char name_of_input[64];

static const char *differs(struct image now)
{
	static char name[] = "x", recipe[] = "r", append[] = "quiet";
	static char kernel[64], initramfs[64];
	struct image then = { .name = name,
		.recipe = recipe,
		.append = append,
		.kernel = kernel,
		.initramfs = initramfs,
		.memory_mib = 256 };
	CLEAN(json) struct json *was = NULL, *is = NULL;

	(void)snprintf(kernel, sizeof(kernel), "%s/kernel", scratch);
	(void)snprintf(initramfs, sizeof(initramfs), "%s/initramfs", scratch);
	put(kernel, "k");
	put(initramfs, "i");
	was = template_key(&then, then.memory_mib, ACCEL_TCG, NULL);
	CHECK(!template_key_differs(was, was));
	now.name = name;
	now.recipe = now.recipe ? now.recipe : recipe;
	now.append = now.append ? now.append : append;
	now.memory_mib = now.memory_mib ? now.memory_mib : 256;
	now.kernel = kernel;
	now.initramfs = initramfs;
	if (now.disk)
		put(kernel, "another kernel");
	now.disk = NULL;
	is = template_key(&now, now.memory_mib, ACCEL_TCG, NULL);
	/* The name is one of the key's, which goes away. */
	(void)snprintf(name_of_input, sizeof(name_of_input), "%s",
		template_key_differs(is, was) ? template_key_differs(is, was) : "");
	return name_of_input;
}

TEST(an_input_that_changed_is_named)
{
	static char other[] = "other";

	enter();
	CHECK_STR(differs((struct image){ 0 }), "");
	CHECK_STR(differs((struct image){ .recipe = other }), "image");
	CHECK_STR(differs((struct image){ .disk = other }), "image");
	CHECK_STR(differs((struct image){ .memory_mib = 300 }), "memory");
	CHECK_STR(differs((struct image){ .append = other }), "command line");
	leave();
}

TEST(what_a_template_was_made_from_is_an_input)
{
	static char name[] = "x", recipe[] = "r", append[] = "quiet", file[] = "/nonexist";
	const struct image image = {
		.name = name, .recipe = recipe, .append = append, .kernel = file, .initramfs = file
	};
	CLEAN(json) struct json *none = template_key(&image, 256, ACCEL_TCG, NULL);
	CLEAN(json) struct json *one = template_key(&image, 256, ACCEL_TCG, "1");
	CLEAN(json) struct json *two = template_key(&image, 256, ACCEL_TCG, "2");

	CHECK_STR(template_key_differs(one, NULL), "postern");
	CHECK_STR(template_key_differs(one, none), "image's template");
	CHECK_STR(template_key_differs(one, two), "image's template");
	/* Inputs of the scenario that are not at hand are not compared. */
	json_set_str(one, "break.sh", "a");
	json_set_str(two, "image's template", "1");
	CHECK(!template_key_differs(two, one));
	CHECK_STR(template_key_differs(one, two), "break.sh");
}

/* Files. */

static void write_at(const char *path, off_t at, const char *text)
{
	CLEAN(fd) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text));
}

static char *in_scratch(const char *name)
{
	return xasprintf("%s/%s", scratch, name);
}

TEST(copies_have_holes_and_the_same_hash)
{
	CLEAN(str) char *from = NULL;
	CLEAN(str) char *to = NULL;
	char first[SHA256_TEXT], second[SHA256_TEXT];
	CLEAN(buf) struct buf a = { 0 }, b = { 0 };
	CLEAN(fd) int fd = -1;

	enter();
	from = in_scratch("from");
	to = in_scratch("to");
	write_at(from, 0, "first");
	write_at(from, 1000000, "in the middle");
	write_at(from, 3000000, "end, not of a page");
	fd = open(from, O_RDONLY | O_CLOEXEC);
	CHECK(pages_copy(fd, to, first, &err));
	CHECK(pages_hash(to, second, &err));
	CHECK_STR(first, second);
	CHECK_INT(strlen(first), 64);
	CHECK(file_read(from, 4000000, &a, &err) && file_read(to, 4000000, &b, &err));
	CHECK_INT(a.len, b.len);
	CHECK_MEM(a.data, b.data, a.len);
	/* Zeros that are written say the same as a hole. */
	CHECK(file_write(to, a.data, a.len, &err));
	CHECK(pages_hash(to, second, &err));
	CHECK_STR(first, second);
	leave();
}

TEST(a_clone_reads_like_its_file_and_is_another)
{
	CLEAN(str) char *from = NULL;
	CLEAN(str) char *to = NULL;
	char first[SHA256_TEXT], second[SHA256_TEXT];
	struct stat st;

	enter();
	from = in_scratch("from");
	to = in_scratch("to");
	write_at(from, 20000, "in the middle");
	CHECK(truncate(from, 64 << 20) == 0);
	put(to, "what was there before");
	CHECK(pages_hash(from, first, &err));
	CHECK(pages_clone(from, to, &err));
	CHECK(pages_hash(to, second, &err));
	CHECK_STR(first, second);
	CHECK(stat(to, &st) == 0 && st.st_size == 64 << 20);
	CHECK(st.st_blocks * 512 < 1 << 20);
	write_at(to, 20000, "changed in the clone");
	CHECK(pages_hash(from, second, &err));
	CHECK_STR(first, second);
	CHECK(!pages_clone("/nonexist", to, &err));
	CHECK_STR(err.text, "/nonexist: No such file or directory");
	leave();
}

TEST(every_change_of_a_file_changes_its_hash)
{
	CLEAN(str) char *file = NULL;
	char was[SHA256_TEXT], is[SHA256_TEXT];

	enter();
	file = in_scratch("file");
	put(file, "");
	CHECK(pages_hash(file, was, &err));
	CHECK(truncate(file, 8192) == 0 && pages_hash(file, is, &err));
	CHECK(strcmp(was, is) != 0);
	write_at(file, 4096, "x");
	CHECK(pages_hash(file, was, &err));
	CHECK(strcmp(was, is) != 0);
	put(file, "x");
	CHECK(truncate(file, 8192) == 0 && pages_hash(file, is, &err));
	CHECK(strcmp(was, is) != 0);
	CHECK(truncate(file, 8193) == 0 && pages_hash(file, was, &err));
	CHECK(strcmp(was, is) != 0);
	CHECK(!pages_hash("/nonexist", is, &err));
	leave();
}

TEST(what_a_killed_making_left_is_swept)
{
	static const char *const names[] = { "new.memory", "new.state", "new.qcow2", "old.memory",
		"old.state", "old.qcow2", "id.memory", "id.state", "id.qcow2", "template.json",
		"template.json.new.12" };
	CLEAN(folder) struct folder *f = NULL;
	CLEAN(str) char *left = NULL;
	struct folder_use use;

	enter();
	f = folder_open("x", &err);
	CHECK(f != NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		CLEAN(str) char *path = xasprintf("%s/%s", f->path, names[i]);

		put(path, names[i]);
	}
	folder_sweep(f, "id");
	CHECK(folder_measure(f, "id", &use, &err));
	CHECK_INT(use.old_overlays, 1);
	CHECK_INT(use.disks, 2);
	CHECK_INT(use.files, 5);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		CLEAN(str) char *path = xasprintf("%s/%s", f->path, names[i]);
		bool stays = !strncmp(names[i], "id.", 3) || !strcmp(names[i], "old.qcow2") ||
			     !strcmp(names[i], "template.json");

		CHECK_INT(file_exists(path), stays);
	}
	CHECK(template_names(&left, &err));
	CHECK_STR(left, "x");
	CHECK(folder_empty(f, &err));
	free(left);
	CHECK(template_names(&left, &err));
	CHECK(!left);
	leave();
}

/* A template as template_remove sees it. */
static void pretend(const char *name, const char *manifest)
{
	CLEAN(folder) struct folder *f = folder_open(name, &err);
	CLEAN(str) char *file = NULL;

	CHECK(f != NULL);
	file = xasprintf("%s/template.json", f->path);
	put(file, manifest);
}

static void hear(void *self, const char *text)
{
	buf_printf(self, "%s\n", text);
}

TEST(what_stands_on_a_template_goes_with_it)
{
	CLEAN(buf) struct buf said = { 0 };
	CLEAN(str) char *left = NULL;
	struct folder_use use;
	struct loop loop;

	enter();
	CHECK(loop_init(&loop, false, &err));
	pretend("x", "{\"id\": \"1\", \"image\": \"x\"}");
	pretend("y", "{\"id\": \"2\", \"image\": \"y\"}");
	pretend("scenario:on-x", "{\"image\": \"x\", \"key\": {\"image's template\": \"1\"}}");
	pretend("scenario:on-y", "{\"image\": \"y\", \"key\": {\"image's template\": \"2\"}}");
	pretend("scenario:booted", "{\"image\": \"x\", \"key\": {}}");
	CHECK(template_remove(&loop, "x", hear, &said, &use, &err));
	CHECK_INT(use.files, 1);
	CHECK_STR(buf_text(&said),
		"removed the template of scenario on-x too: its disk stood on that of the one of "
		"image x\n");
	CHECK(template_names(&left, &err));
	CHECK_STR(left, "scenario:booted, scenario:on-y, y");
	CHECK(!template_remove(&loop, "scenario:none", hear, &said, &use, &err));
	CHECK_STR(err.text, "there is no template of a scenario none; see postern template ls");
	loop_release(&loop);
	leave();
}

TEST(a_template_in_use_is_waited_for)
{
	CLEAN(folder) struct folder *one = NULL, *other = NULL;
	struct loop loop;

	enter();
	CHECK(loop_init(&loop, false, &err));
	one = folder_open("x", &err);
	other = folder_open("x", &err);
	CHECK(one && other);
	CHECK(folder_lock(&loop, one, LOCK_SH, NULL, NULL, &err));
	CHECK(folder_lock(&loop, other, LOCK_SH, NULL, NULL, &err));
	CHECK(flock(other->lock, LOCK_EX | LOCK_NB) < 0);
	folder_free(one);
	one = NULL;
	CHECK(folder_lock(&loop, other, LOCK_EX, NULL, NULL, &err));
	loop_release(&loop);
	leave();
}

/* A state. Plays QEMU: takes lines, keeps the descriptor that comes with one. */

struct peer {
	struct loop loop;
	struct qmp *qmp;
	pid_t pid;
	enum migration progress;
};

/* Returns the line's first byte, or 0 at the end; *passed is the descriptor that came with it. */
static bool take_line(int fd, char *line, size_t room, int *passed)
{
	size_t len = 0;

	while (len + 1 < room) {
		union {
			struct cmsghdr align;
			char space[CMSG_SPACE(sizeof(int))];
		} control = { 0 };
		struct iovec byte = { line + len, 1 };
		struct msghdr message = { .msg_iov = &byte,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control) };

		if (recvmsg(fd, &message, 0) != 1)
			return false;
		if (CMSG_FIRSTHDR(&message))
			memcpy(passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
		if (line[len++] == '\n')
			break;
	}
	line[len] = 0;
	return true;
}

static void reply(int fd, const char *text)
{
	(void)!write(fd, text, strlen(text));
}

#define STATE_BYTES 300000

static void move_state(int fd, bool save)
{
	CLEAN(buf) struct buf seen = { 0 };
	char chunk[1000];
	ssize_t n;

	memset(chunk, 's', sizeof(chunk));
	for (int i = 0; save && i < STATE_BYTES; i += (int)sizeof(chunk))
		(void)!write(fd, chunk, sizeof(chunk));
	while (!save && (n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(&seen, chunk, (size_t)n);
	if (!save && seen.len != STATE_BYTES)
		_exit(1);
	close(fd);
}

static _Noreturn void play(int fd, const char *status)
{
	char line[1024], answer[128];
	int id = 1, passed = -1;

	while (take_line(fd, line, sizeof(line), &passed)) {
		bool moves = strstr(line, "\"migrate\"") || strstr(line, "\"migrate-incoming\"");

		/* A descriptor that comes with another command would be lost. */
		if (moves && passed < 0)
			_exit(2);
		(void)snprintf(answer, sizeof(answer), "{\"return\": {}, \"id\": %d}\n", id++);
		reply(fd, answer);
		if (!moves)
			continue;
		if (!strcmp(status, "completed"))
			move_state(passed, strstr(line, "\"migrate\"") != NULL);
		(void)snprintf(answer, sizeof(answer),
			"{\"event\": \"MIGRATION\", \"data\": {\"status\": \"%s\"}}\n", status);
		reply(fd, answer);
	}
	_exit(0);
}

static void on_event(void *self, const char *name, const struct json *data)
{
	if (!strcmp(name, "MIGRATION"))
		migration_event(self, data);
}

static void peer_start(struct peer *p, const char *status)
{
	int ours, theirs;

	*p = (struct peer){ 0 };
	CHECK(loop_init(&p->loop, false, &err));
	CHECK(fd_pair(&ours, &theirs, &err));
	p->pid = fork();
	if (p->pid == 0) {
		close(ours);
		play(theirs, status);
	}
	close(theirs);
	p->qmp = qmp_new(&p->loop, ours, on_event, &p->progress);
}

static void peer_end(struct peer *p)
{
	int status;

	qmp_free(p->qmp);
	CHECK(waitpid(p->pid, &status, 0) == p->pid);
	CHECK_INT(status, 0);
	loop_release(&p->loop);
}

TEST(a_state_is_saved_and_loaded)
{
	CLEAN(buf) struct buf state = { 0 };
	struct peer p;

	peer_start(&p, "completed");
	CHECK(state_save(&p.loop, p.qmp, &p.progress, &state, clock_in(10000), &err));
	CHECK_INT(state.len, STATE_BYTES);
	peer_end(&p);
	peer_start(&p, "completed");
	CHECK(state_load(&p.loop, p.qmp, &p.progress, &state, clock_in(10000), &err));
	peer_end(&p);
}

TEST(a_state_that_qemu_refuses_is_told)
{
	CLEAN(buf) struct buf state = { 0 };
	struct peer p;

	buf_str(&state, "no state");
	peer_start(&p, "failed");
	CHECK(!state_load(&p.loop, p.qmp, &p.progress, &state, clock_in(10000), &err));
	CHECK_STR(err.text, "QEMU failed to load the state of the machine");
	peer_end(&p);
	peer_start(&p, "failed");
	CHECK(!state_save(&p.loop, p.qmp, &p.progress, &state, clock_in(10000), &err));
	peer_end(&p);
}
