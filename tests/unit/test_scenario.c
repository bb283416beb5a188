/* SPDX-License-Identifier: Apache-2.0 */
/* Scenario folders: what is read, and what is refused with file and line. */
#include "eval/scenario.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "test.h"

static bool front(const char *text, struct front *ret, struct err *err)
{
	size_t body = 0;

	return front_parse("s.md", text, strlen(text), ret, &body, err);
}

/* Refused with exactly this sentence. */
static void refuse(const char *text, const char *sentence)
{
	struct err err = { 0 };
	struct front f = { 0 };

	CHECK(!front(text, &f, &err));
	CHECK_STR(err.text, sentence);
}

TEST(front_matter_is_read)
{
	static const char text[] = "---\ntitle: The site answers 403\nimage: server\n"
				   "tags: [nginx, permissions]\ndifficulty: easy\nturns: 7\n"
				   "time: 90\nmemory: 256\nreboot: yes\n---\nRepair it.\n";
	struct err err = { 0 };
	struct front f = { 0 };
	size_t body = 0;

	CHECK(front_parse("s.md", text, strlen(text), &f, &body, &err));
	CHECK_STR(f.title, "The site answers 403");
	CHECK_STR(f.image, "server");
	CHECK_STR(f.difficulty, "easy");
	CHECK_STR(f.tags[1], "permissions");
	CHECK(!f.tags[2]);
	CHECK_INT(f.turns, 7);
	CHECK_INT(f.time_s, 90);
	CHECK_INT(f.memory_mib, 256);
	CHECK(f.reboot);
	CHECK_STR(text + body, "Repair it.\n");
	front_release(&f);
}

TEST(front_matter_has_defaults)
{
	struct err err = { 0 };
	struct front f = { 0 };

	CHECK(front("---\ntitle: T\nimage: i\n---\n", &f, &err));
	CHECK_INT(f.turns, 12);
	CHECK_INT(f.time_s, 600);
	CHECK_INT(f.memory_mib, 0);
	CHECK(!f.difficulty && !f.tags && !f.reboot);
	front_release(&f);
}

TEST(front_matter_errors_have_lines)
{
	refuse("title: T\n", "s.md:1: want a line of three dashes");
	refuse("---\ntitle: T\n", "s.md:1: no second line of three dashes ends the head");
	refuse("---\n---\n", "s.md:2: want lines of KEY: VALUE");
	refuse("---\n- title\n---\n", "s.md:2: want lines of KEY: VALUE");
	refuse("---\ntitle: T\n---\n", "s.md:1: the key image is missing");
	refuse("---\ntitle: T\nimage: i\ncolour: red\n---\n", "s.md:4: unknown key colour");
	refuse("---\ntitle: T\nimage: i\nfault: none\n---\n", "s.md:4: unknown key fault");
	refuse("---\ntitle: T\ntitle: U\nimage: i\n---\n", "s.md:3: the key is there twice: title");
	refuse("---\ntitle: [T]\nimage: i\n---\n", "s.md:2: want one line of text");
	refuse("---\ntitle: T\nimage:\n---\n", "s.md:3: want one line of text");
	refuse("---\ntitle: T\nimage: i\ntags: nginx\n---\n", "s.md:4: want a list: [one, two]");
	refuse("---\ntitle: T\nimage: i\ntags:\n  - a\n  - [b]\n---\n",
		"s.md:6: want one line of text");
	refuse("---\ntitle: T\nimage: i\ndifficulty: huge\n---\n",
		"s.md:4: want easy, medium or hard");
	refuse("---\ntitle: T\nimage: i\nturns: many\n---\n", "s.md:4: want turns from 1 to 1000");
	refuse("---\ntitle: T\nimage: i\nturns: \"7\"\n---\n", "s.md:4: want turns from 1 to 1000");
	refuse("---\ntitle: T\nimage: i\nturns: 0\n---\n", "s.md:4: want turns from 1 to 1000");
	refuse("---\ntitle: T\nimage: i\nturns: -3\n---\n", "s.md:4: want turns from 1 to 1000");
	refuse("---\ntitle: T\nimage: i\ntime: 99999999999\n---\n",
		"s.md:4: want seconds from 1 to 86400");
	refuse("---\ntitle: T\nimage: i\nreboot: always\n---\n", "s.md:4: want yes or no");
	refuse("---\ntitle: T\nimage: i\nreboot: [yes]\n---\n", "s.md:4: want yes or no");
}

TEST(front_matter_that_is_no_yaml)
{
	struct err err = { 0 };
	struct front f = { 0 };

	CHECK(!front("---\ntitle: T\nimage: [i\n---\n", &f, &err));
	CHECK(!strncmp(err.text, "s.md:4: not YAML: ", 18) ||
		!strncmp(err.text, "s.md:3: not YAML: ", 18));
}

static char *folder;

static void write_file(const char *name, const char *text)
{
	CLEAN(str) char *path = xasprintf("%s/%s", folder, name);
	CLEAN(str) char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	struct err err = { 0 };

	CHECK(dir_make(parent, &err));
	CHECK(file_write(path, text, strlen(text), &err));
}

static void make_scenario(void)
{
	char name[] = "/tmp/scenario-XXXXXX";

	CHECK(mkdtemp(name));
	folder = xstrdup(name);
	write_file("lib/tap.sh", "# tap\n");
	write_file("one/scenario.md", "---\ntitle: T\nimage: i\n---\n\nRepair it.\n");
	write_file("one/break.sh", "false\n");
	write_file("one/fix.sh", "true\n");
	write_file("one/checks/live.sh", "live\n");
	write_file("one/checks/boot.sh", "boot\n");
}

static bool open_it(struct scenario *ret, struct err *err)
{
	CLEAN(str) char *path = xasprintf("%s/one", folder);

	return scenario_open(path, ret, err);
}

static void remove_it(void)
{
	struct err err = { 0 };

	CHECK(dir_remove(folder, &err));
	free(folder);
}

TEST(folder_is_read)
{
	struct err err = { 0 };
	struct scenario s;

	make_scenario();
	write_file("one/files/b/index.html", "deep");
	write_file("one/files/a.conf", "flat");
	CHECK(open_it(&s, &err));
	CHECK_STR(s.name, "one");
	CHECK_STR(s.instruction, "Repair it.\n");
	CHECK_STR(s.break_sh, "false\n");
	CHECK_STR(s.fix_sh, "true\n");
	CHECK_STR(s.live_sh, "live\n");
	CHECK_STR(s.boot_sh, "boot\n");
	CHECK_STR(s.tap_sh, "# tap\n");
	CHECK_INT((long long)s.files_len, 2);
	CHECK_STR(s.files[0].path, "a.conf");
	CHECK_STR(s.files[1].path, "b/index.html");
	CHECK_STR(buf_text(&s.files[1].data), "deep");
	scenario_release(&s);
	remove_it();
}

TEST(folder_with_odd_files_is_refused)
{
	struct err err = { 0 };
	struct scenario s;

	make_scenario();
	write_file("one/files/a b", "x");
	CHECK(!open_it(&s, &err));
	CHECK(strstr(err.text, "/one/files/a b: names below files/"));
	remove_it();

	make_scenario();
	write_file("one/files/plain", "x");
	{
		CLEAN(str) char *link = xasprintf("%s/one/files/link", folder);

		CHECK(symlink("plain", link) == 0);
	}
	CHECK(!open_it(&s, &err));
	CHECK(strstr(err.text, "/one/files/link: want files and folders alone"));
	remove_it();
}

TEST(folder_that_lacks_something_is_refused)
{
	struct err err = { 0 };
	struct scenario s;

	make_scenario();
	{
		CLEAN(str) char *fix = xasprintf("%s/one/fix.sh", folder);

		CHECK(unlink(fix) == 0);
	}
	CHECK(!open_it(&s, &err));
	CHECK(strstr(err.text, "/one/fix.sh: No such file"));
	remove_it();

	CHECK(!scenario_open("no-such-scenario", &s, &err));
	CHECK(strstr(err.text, "no-such-scenario: no such scenario"));
}

/* With this text in this file the folder is refused, with a sentence that ends so. */
static void refuse_file(const char *name, const char *text, const char *end)
{
	struct err err = { 0 };
	struct scenario s;

	make_scenario();
	write_file(name, text);
	CHECK(!open_it(&s, &err));
	if (!strstr(err.text, end))
		CHECK_STR(err.text, end);
	remove_it();
}

TEST(text_of_other_systems_is_refused)
{
	refuse_file("one/break.sh", "false\r\n", "one/break.sh: has lines that end in CR LF");
	refuse_file("one/scenario.md", "---\r\ntitle: T\r\n", "lines that end in CR LF");
	refuse_file("one/checks/live.sh", "\xef\xbb\xbflive\n", "begins with a byte order mark");
	refuse_file("one/scenario.md", "---\ntitle: T\nimage: i\n---\nR\xe9pare.\n",
		"the instruction is not UTF-8");
}
