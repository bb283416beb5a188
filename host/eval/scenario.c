/* SPDX-License-Identifier: Apache-2.0 */
/* A scenario: its folder, read whole into memory. */
#include "scenario.h"

#include <errno.h>
#include <fts.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "model/utf8.h"

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static bool name_is_plain(const char *name)
{
	return *name && *name != '.' && *name != '-' && strspn(name, NAME_CHARS) == strlen(name);
}

/* What an editor of another system leaves in a text reads well and fails in the machine. */
static bool text_is_plain(const char *path, const struct buf *text, struct err *err)
{
	const char *s = buf_text(text);

	if (strlen(s) != text->len)
		return err_set(err, ERR_INPUT, "%s: holds a NUL byte, want plain text", path);
	if (!strncmp(s, "\xef\xbb\xbf", 3))
		return err_set(
			err, ERR_INPUT, "%s: begins with a byte order mark: save it without", path);
	if (strstr(s, "\r\n"))
		return err_set(err, ERR_INPUT,
			"%s: has lines that end in CR LF: save it with LF alone", path);
	return true;
}

char *script_read(const char *path, struct err *err)
{
	CLEAN(buf) struct buf text = { 0 };

	if (!file_read(path, SCRIPT_MAX, &text, err))
		return NULL;
	return text_is_plain(path, &text, err) ? buf_take(&text) : NULL;
}

/* A request to a model server is JSON, and JSON is UTF-8. */
static bool is_utf8(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t left = strlen(text), n;
	uint32_t ch;

	while (left && (n = utf8_char(p, left, &ch))) {
		p += n;
		left -= n;
	}
	return !left;
}

static bool read_script(const char *folder, const char *name, char **ret, struct err *err)
{
	CLEAN(str) char *path = xasprintf("%s/%s", folder, name);

	*ret = script_read(path, err);
	return *ret;
}

static bool read_md(const char *folder, struct scenario *s, struct err *err)
{
	CLEAN(str) char *path = xasprintf("%s/scenario.md", folder);
	CLEAN(str) char *text = script_read(path, err);
	size_t body;

	if (!text && !file_exists(path))
		return err_set(err, ERR_INPUT, "%s: is no scenario: it has no scenario.md", folder);
	if (!text || !front_parse(path, text, strlen(text), &s->front, &body, err))
		return false;
	while (text[body] == '\n')
		body++;
	if (!text[body])
		return err_set(
			err, ERR_INPUT, "%s: no instruction for the model behind the head", path);
	if (!is_utf8(text + body))
		return err_set(err, ERR_INPUT, "%s: the instruction is not UTF-8", path);
	s->instruction = xstrdup(text + body);
	return true;
}

static bool take_file(struct scenario *s, const FTSENT *entry, size_t *left, struct err *err)
{
	struct scenario_file *file;
	const char *below = entry->fts_path;

	/* The path below files/, which is level 0. */
	below += entry->fts_pathlen;
	for (int level = entry->fts_level; level;)
		if (*--below == '/' && --level == 0)
			below++;
	s->files = xrealloc(s->files, (s->files_len + 1) * sizeof(*s->files));
	file = &s->files[s->files_len++];
	*file = (struct scenario_file){ .path = xstrdup(below) };
	if (!file_read(entry->fts_accpath, *left, &file->data, err))
		return false;
	*left -= file->data.len;
	return true;
}

static bool walk_files(FTS *fts, struct scenario *s, struct err *err)
{
	size_t left = FILES_MAX;
	FTSENT *entry;

	while ((errno = 0, entry = fts_read(fts))) {
		if (entry->fts_info == FTS_DP)
			continue;
		if (entry->fts_level && !name_is_plain(entry->fts_name))
			return err_set(err, ERR_INPUT,
				"%s: names below files/ are of letters, digits, dot, _ and -",
				entry->fts_path);
		if (entry->fts_info == FTS_D)
			continue;
		if (entry->fts_info != FTS_F)
			return err_set(err, ERR_INPUT, "%s: want files and folders alone",
				entry->fts_path);
		if (!take_file(s, entry, &left, err))
			return false;
	}
	return !errno || err_errno(err, "files");
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool read_files(const char *folder, struct scenario *s, struct err *err)
{
	CLEAN(str) char *path = xasprintf("%s/files", folder);
	char *const roots[] = { path, NULL };
	bool ok;
	FTS *fts;

	if (!file_exists(path))
		return true;
	fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	if (!fts)
		return err_errno(err, "%s", path);
	ok = walk_files(fts, s, err);
	fts_close(fts);
	return ok;
}

/* What the checks of all scenarios share stands beside them. */
static bool read_tap(const char *folder, struct scenario *s, struct err *err)
{
	return read_script(folder, "../lib/tap.sh", &s->tap_sh, err) ||
	       err_in(err,
		       "the folder lib of the project's scenarios must stand beside the scenario");
}

static bool read_folder(const char *folder, struct scenario *s, struct err *err)
{
	s->name = xstrdup(strrchr(folder, '/') + 1);
	if (!name_is_plain(s->name))
		return err_set(err, ERR_INPUT,
			"%s: the folder's name must be of letters, digits, dot, _ and -", folder);
	return read_md(folder, s, err) && read_script(folder, "break.sh", &s->break_sh, err) &&
	       read_script(folder, "fix.sh", &s->fix_sh, err) &&
	       read_script(folder, "checks/live.sh", &s->live_sh, err) &&
	       read_script(folder, "checks/boot.sh", &s->boot_sh, err) &&
	       read_files(folder, s, err) && read_tap(folder, s, err);
}

/* Returns the real path of the folder, owned; NULL when there is none. */
static char *find_folder(const char *name)
{
	CLEAN(str) char *here = xasprintf("%s/scenario.md", name);
	CLEAN(str) char *there = xasprintf("scenarios/%s", name);

	if (file_exists(here) || strchr(name, '/'))
		return realpath(name, NULL);
	return realpath(there, NULL);
}

bool scenario_open(const char *name, struct scenario *ret_scenario, struct err *err)
{
	CLEAN(str) char *folder = find_folder(name);
	struct scenario s = { 0 };

	if (!folder)
		return err_set(err, ERR_INPUT,
			"%s: no such scenario; give a folder, or the name of one in ./scenarios",
			name);
	if (!read_folder(folder, &s, err)) {
		scenario_release(&s);
		return false;
	}
	*ret_scenario = s;
	return true;
}

void scenario_release(struct scenario *s)
{
	free(s->name);
	front_release(&s->front);
	free(s->instruction);
	free(s->break_sh);
	free(s->fix_sh);
	free(s->live_sh);
	free(s->boot_sh);
	free(s->tap_sh);
	for (size_t i = 0; i < s->files_len; i++) {
		free(s->files[i].path);
		buf_release(&s->files[i].data);
	}
	free(s->files);
	*s = (struct scenario){ 0 };
}
