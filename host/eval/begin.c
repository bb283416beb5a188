/* SPDX-License-Identifier: Apache-2.0 */
/* The broken machine that a trial begins with. */
#include "begin.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "inject.h"
#include "machine/preflight.h"
#include "machine/start.h"
#include "sha256.h"

#define REBOOT_MS 180000 /* x factor: down and up again */

static void tell(void *self, const char *text)
{
	trial_say(self, text);
}

/* The machine was asked before anything ran in it. */
static void note_seal(struct trial *t, const struct machine *m)
{
	t->confinement = *machine_confinement(m);
	t->sealed = true;
}

/* Breaks a machine that is up and sealed, for a template or for this trial alone. */
static bool break_it(void *self, struct machine *m, struct json **ret_said, struct err *err)
{
	struct trial *t = self;
	const struct scenario *s = t->spec->scenario;
	int64_t reboot = (int64_t)REBOOT_MS * t->factor;
	CLEAN(buf) struct buf output = { 0 };

	note_seal(t, m);
	trial_say(t, "breaking it");
	if (!inject(machine_session(m), s, t->factor, &output, err))
		return trial_unscored(t, "break.sh", err);
	if (s->front.reboot && !machine_reboot(m, clock_in(reboot), err))
		return trial_unscored(t, "rebooting after break.sh", err);
	*ret_said = record_text(buf_text(&output), output.len, SIZE_MAX);
	return true;
}

static void add_hash(struct json *inputs, const char *name, struct sha256 *sum)
{
	char text[SHA256_TEXT];

	sha256_end_text(sum, text);
	json_set_str(inputs, name, text);
}

/* All of a scenario that goes into its machine before the model does, but for the memory. */
static struct json *inputs_of(const struct scenario *s)
{
	struct json *inputs = json_object();
	struct sha256 sum;

	sha256_init(&sum);
	sha256_add(&sum, s->break_sh, strlen(s->break_sh));
	add_hash(inputs, "break.sh", &sum);
	sha256_init(&sum);
	for (size_t i = 0; i < s->files_len; i++) {
		const struct scenario_file *file = &s->files[i];
		CLEAN(str) char *head = xasprintf("%s %zu\n", file->path, file->data.len);

		sha256_add(&sum, head, strlen(head));
		sha256_add(&sum, buf_text(&file->data), file->data.len);
	}
	add_hash(inputs, "files/", &sum);
	json_set_str(inputs, "reboot", s->front.reboot ? "yes" : "no");
	return inputs;
}

static struct machine *clone(struct trial *t, const char *overlay, const char *log,
	struct json **ret_said, bool *ret_avoidable, struct err *err)
{
	const struct scenario *s = t->spec->scenario;
	CLEAN(json) struct json *inputs = inputs_of(s);
	const struct template_change change = { .scenario = s->name,
		.inputs = inputs,
		.memory_mib = s->front.memory_mib,
		.apply = break_it,
		.self = t };
	CLEAN(template) struct template template = { 0 };
	struct machine *m;
	bool open = template_open_changed(
		&t->loop, t->spec->image, &change, tell, t, &template, ret_avoidable, err);

	trial_phase_ends(t, PHASE_TEMPLATE);
	if (!open || !overlay_create(overlay, template.disk, err))
		return NULL;
	m = template_clone(&t->loop, &template, overlay, log, err);
	if (m) {
		*ret_said = json_copy(template.said);
		t->template = xstrdup(template.id);
		t->stands_on = template.disk ? xstrdup(template.disk) : NULL;
	}
	return m;
}

/* Without a template of the scenario, for the reason in err. */
static bool begin_whole(struct trial *t, const char *overlay, const char *log,
	struct json **ret_said, struct err *err)
{
	int64_t template_ms = 0;
	const struct start_spec spec = {
		.image = t->spec->image,
		.overlay = overlay,
		.console_log = log,
		.memory_mib = t->spec->scenario->front.memory_mib,
		.notice = tell,
		.self = t,
		.ret_template_ms = &template_ms,
	};
	CLEAN(str) char *why = xstrdup(err->text);
	CLEAN(str) char *cold = NULL;

	t->machine = machine_begin(&t->loop, &spec, &cold, err);
	t->seconds[PHASE_TEMPLATE] += (double)template_ms / 1000;
	t->phase_start += template_ms;
	if (!t->machine)
		return trial_unscored(t, "starting the untouched image", err);
	t->start = cold ? "cold boot" : "clone of the image's template";
	t->start_reason =
		cold && strcmp(cold, why) != 0 ? xasprintf("%s; %s", why, cold) : xstrdup(why);
	trial_phase_ends(t, PHASE_BOOT);
	if (!break_it(t, t->machine, ret_said, err))
		return false;
	trial_phase_ends(t, PHASE_BREAK);
	return true;
}

static bool begin(struct trial *t, struct json **ret_said, struct err *err)
{
	CLEAN(str) char *overlay = record_path(&t->record, "overlay.qcow2");
	CLEAN(str) char *log = record_path(&t->record, "console.log");
	bool avoidable = true;

	if (t->spec->image->disk && stat(t->spec->image->disk, &t->image_disk) < 0)
		return err_errno(err, "%s", t->spec->image->disk),
		       trial_unscored(t, "starting the untouched image", err);
	if (!limits_suffice(t->spec->image->disk ? overlay : NULL, err))
		return trial_unscored(t, "starting the untouched image", err);
	t->machine = clone(t, overlay, log, ret_said, &avoidable, err);
	if (t->machine) {
		t->start = "clone of the scenario's template";
		trial_phase_ends(t, PHASE_BOOT);
		return true;
	}
	if (avoidable && err->code != ERR_INTERRUPTED && err->code != ERR_DENIED)
		return begin_whole(t, overlay, log, ret_said, err);
	return t->host_failed ? false : trial_unscored(t, "starting the untouched image", err);
}

bool begin_broken(struct trial *t, struct err *err)
{
	CLEAN(json) struct json *said = NULL;
	const char *text;

	trial_say(t, "starting");
	if (!begin(t, &said, err))
		return false;
	note_seal(t, t->machine);
	text = json_text(said);
	trial_note(t, "break", text ? text : "");
	return true;
}

bool begin_holds(const struct trial *t, struct err *err)
{
	const struct stat *was = &t->image_disk;
	const char *disk = t->spec->image->disk;
	struct stat is;

	if (t->stands_on && !file_exists(t->stands_on))
		return err_set(err, ERR_SYSTEM,
			"the template that the trial began from was removed while it ran: run it "
			"again");
	if (!disk)
		return true;
	if (stat(disk, &is) < 0)
		return err_errno(err, "%s", disk);
	return (is.st_dev == was->st_dev && is.st_ino == was->st_ino &&
		       is.st_size == was->st_size &&
		       !memcmp(&is.st_mtim, &was->st_mtim, sizeof(is.st_mtim))) ||
	       err_set(err, ERR_SYSTEM,
		       "the image's disk was built anew while the trial ran: run it again");
}
