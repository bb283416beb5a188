/* SPDX-License-Identifier: Apache-2.0 */
/* Names, order and numbers of the snapshots of a machine, from folders that look like some. */
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "keeper/snapshots.h"

static char home[] = "/tmp/snapshots-XXXXXX";
static struct err err;

/* A snapshot of a machine; manifest NULL: it is not whole. */
static void make(const char *machine, const char *name, const char *manifest)
{
	CLEAN(str) char *folder = xasprintf("%s/machines/%s/snapshots/%s", home, machine, name);
	CLEAN(str) char *file = xasprintf("%s/template.json", folder);
	CLEAN(str) char *memory = xasprintf("%s/saved.memory", folder);
	static time_t made = 1000000;
	struct timespec times[2] = { 0 };

	CHECK(dir_make(folder, &err));
	CHECK(file_write(memory, "memory", 6, &err));
	if (manifest)
		CHECK(file_write(file, manifest, strlen(manifest), &err));
	/* Later than all before, however coarse the clock of files is. */
	times[0].tv_sec = times[1].tv_sec = ++made;
	CHECK_INT(utimensat(AT_FDCWD, folder, times, 0), 0);
}

static void begin(void)
{
	CHECK(mkdtemp(home) != NULL);
	CHECK_INT(setenv("POSTERN_HOME", home, 1), 0);
}

static void finish(void)
{
	CHECK(dir_remove(home, &err));
}

/* Their names, joined. */
static void has(const char *machine, const char *names)
{
	CLEAN(json) struct json *list = snapshots_list(machine);
	CLEAN(buf) struct buf text = { 0 };

	for (size_t i = 0; i < json_len(list); i++)
		buf_printf(&text, "%s ", json_get_str(json_at(list, i), "name"));
	CHECK_STR(buf_text(&text), names);
}

#define WHOLE "{\"id\": \"saved\", \"made\": \"2026-01-31T12:00:00Z\", \"memory_mib\": 256}"

TEST(the_oldest_comes_first_and_what_is_not_whole_does_not_count)
{
	char *name, *folder;

	begin();
	has("box", "");
	CHECK(!snapshots_find("box", NULL, &name, &err));
	CHECK_STR(err.text, "the machine box has no snapshot: postern snapshot box takes one");
	make("box", "z", WHOLE);
	make("box", "a", WHOLE);
	make("box", "half", NULL);
	make("box", "torn", "{\"id\": ");
	make("box", ".new", WHOLE);
	make("box", "Strange", WHOLE);
	make("box", "m", WHOLE);
	has("box", "z a m ");
	folder = snapshots_find("box", NULL, &name, &err);
	CHECK(folder);
	CHECK_STR(name, "m");
	free(folder);
	free(name);
	CHECK(!snapshots_find("box", "half", &name, &err));
	CHECK(!snapshots_find("box", "", &name, &err));
	finish();
}

TEST(one_is_shared_with_another_machine)
{
	CLEAN(str) char *other = NULL;
	CLEAN(str) char *file = NULL;
	struct stat st;

	begin();
	other = xasprintf("%s/machines/twin", home);
	make("box", "one", WHOLE);
	/* A machine that is not there is not made. */
	CHECK(!snapshots_share("box", "one", "twin", &err));
	CHECK(dir_make(other, &err));
	make("twin", ".new", NULL);
	CHECK(!snapshots_share("box", "two", "twin", &err));
	CHECK(snapshots_share("box", "one", "twin", &err));
	has("twin", "one ");
	file = xasprintf("%s/snapshots/one/saved.memory", other);
	CHECK_INT(stat(file, &st), 0);
	CHECK_INT(st.st_nlink, 2);
	finish();
}

TEST(what_is_removed_is_gone)
{
	CLEAN(str) char *all = NULL;
	CLEAN(str) char *names = NULL;

	begin();
	make("box", "one", WHOLE);
	make("box", "torn", "{");
	CHECK(!snapshots_remove("box", "two", &err));
	CHECK(strstr(err.text, "the machine box has no snapshot two") != NULL);
	CHECK(snapshots_remove("box", "one", &err));
	CHECK(snapshots_remove("box", "torn", &err));
	all = xasprintf("%s/machines/box/snapshots", home);
	CHECK(dir_list(all, "saved.memory", &names, &err));
	CHECK(!names);
	finish();
}

TEST(a_name_is_as_that_of_a_machine)
{
	CHECK(snapshots_check_name("before-upgrade.2", &err));
	CHECK(!snapshots_check_name("../x", &err));
	CHECK(!snapshots_check_name(".new", &err));
	CHECK(!snapshots_check_name("", &err));
	CHECK(strstr(err.text, "a snapshot is named as a machine is") != NULL);
}
