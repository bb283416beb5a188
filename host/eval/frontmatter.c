/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML head of a scenario.md. */
#include "frontmatter.h"

#include <stdint.h>
#include <string.h>
#include <yaml.h>

#include "base/xalloc.h"

#define DEFAULT_TURNS  12
#define DEFAULT_TIME_S 600

struct parse {
	const char *path;
	yaml_document_t *doc;
	struct front *front;
	struct err *err;
};

/* YAML begins on the second line of the file, and its marks count from 0. */
static bool wrong(const struct parse *p, const yaml_node_t *at, const char *what, const char *want)
{
	return err_set(
		p->err, ERR_INPUT, "%s:%zu: %s%s", p->path, at->start_mark.line + 2, what, want);
}

/* The text of a scalar that is not empty and one line; NULL when it is none. */
static const char *scalar(const yaml_node_t *node)
{
	const char *s;

	if (node->type != YAML_SCALAR_NODE || !node->data.scalar.length)
		return NULL;
	s = (const char *)node->data.scalar.value;
	if (strlen(s) != node->data.scalar.length || strpbrk(s, "\r\n\t"))
		return NULL;
	return s;
}

static bool read_text(const struct parse *p, const yaml_node_t *node, char **ret)
{
	const char *s = scalar(node);

	if (!s)
		return wrong(p, node, "want one line of text", "");
	*ret = xstrdup(s);
	return true;
}

static bool read_difficulty(const struct parse *p, const yaml_node_t *node, char **ret)
{
	const char *s = scalar(node);

	if (!s || (strcmp(s, "easy") != 0 && strcmp(s, "medium") != 0 && strcmp(s, "hard") != 0))
		return wrong(p, node, "want easy, medium or hard", "");
	*ret = xstrdup(s);
	return true;
}

static bool read_number(const struct parse *p, const yaml_node_t *node, int min, int max,
	const char *want, int *ret)
{
	const char *s = scalar(node);
	int n = 0;

	if (!s || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || strlen(s) > 6 ||
		strspn(s, "0123456789") != strlen(s))
		return wrong(p, node, "want ", want);
	for (; *s; s++)
		n = n * 10 + (*s - '0');
	if (n < min || n > max)
		return wrong(p, node, "want ", want);
	*ret = n;
	return true;
}

static bool read_yes(const struct parse *p, const yaml_node_t *node, bool *ret)
{
	const char *s = scalar(node);

	if (!s || (strcmp(s, "yes") != 0 && strcmp(s, "no") != 0))
		return wrong(p, node, "want yes or no", "");
	*ret = *s == 'y';
	return true;
}

static bool read_list(const struct parse *p, const yaml_node_t *node, char ***ret)
{
	yaml_node_item_t *item;
	size_t n = 0;

	if (node->type != YAML_SEQUENCE_NODE)
		return wrong(p, node, "want a list: [one, two]", "");
	item = node->data.sequence.items.start;
	*ret = xcalloc((size_t)(node->data.sequence.items.top - item) + 1, sizeof(**ret));
	for (; item < node->data.sequence.items.top; item++)
		if (!read_text(p, yaml_document_get_node(p->doc, *item), &(*ret)[n++]))
			return false;
	return true;
}

enum key { TITLE, IMAGE, TAGS, DIFFICULTY, TURNS, TIME, MEMORY, REBOOT, KEYS };

static const char *const key_names[KEYS] = {
	[TITLE] = "title",
	[IMAGE] = "image",
	[TAGS] = "tags",
	[DIFFICULTY] = "difficulty",
	[TURNS] = "turns",
	[TIME] = "time",
	[MEMORY] = "memory",
	[REBOOT] = "reboot",
};

static bool read_value(const struct parse *p, enum key key, const yaml_node_t *node)
{
	struct front *f = p->front;

	switch (key) {
	case TITLE:
		return read_text(p, node, &f->title);
	case IMAGE:
		return read_text(p, node, &f->image);
	case TAGS:
		return read_list(p, node, &f->tags);
	case DIFFICULTY:
		return read_difficulty(p, node, &f->difficulty);
	case TURNS:
		return read_number(p, node, 1, 1000, "turns from 1 to 1000", &f->turns);
	case TIME:
		return read_number(p, node, 1, 86400, "seconds from 1 to 86400", &f->time_s);
	case MEMORY:
		return read_number(p, node, 64, 65536, "MiB from 64 to 65536", &f->memory_mib);
	case REBOOT:
		return read_yes(p, node, &f->reboot);
	case KEYS:
		break;
	}
	return false;
}

static enum key find_key(const char *name)
{
	enum key key = 0;

	while (key < KEYS && strcmp(key_names[key], name) != 0)
		key++;
	return key;
}

static bool read_pair(const struct parse *p, const yaml_node_pair_t *pair, unsigned *seen)
{
	const yaml_node_t *at = yaml_document_get_node(p->doc, pair->key);
	const char *name = scalar(at);
	enum key key = name ? find_key(name) : KEYS;

	if (key == KEYS)
		return wrong(p, at, "unknown key ",
			name ? name
			     : "(title, image, tags, difficulty, turns, time, memory, reboot)");
	if (*seen & 1u << key)
		return wrong(p, at, "the key is there twice: ", name);
	*seen |= 1u << key;
	return read_value(p, key, yaml_document_get_node(p->doc, pair->value));
}

static bool read_document(const struct parse *p)
{
	const yaml_node_t *root = yaml_document_get_root_node(p->doc);
	unsigned seen = 0;

	if (!root || root->type != YAML_MAPPING_NODE)
		return err_set(p->err, ERR_INPUT, "%s:2: want lines of KEY: VALUE", p->path);
	for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
		pair < root->data.mapping.pairs.top; pair++)
		if (!read_pair(p, pair, &seen))
			return false;
	if (!p->front->title || !p->front->image)
		return err_set(p->err, ERR_INPUT, "%s:1: the key %s is missing", p->path,
			p->front->title ? "image" : "title");
	return true;
}

static bool parse_yaml(
	const char *path, const char *text, size_t len, struct front *front, struct err *err)
{
	yaml_parser_t parser;
	yaml_document_t doc;
	struct parse p = { path, &doc, front, err };
	bool ok;

	if (!yaml_parser_initialize(&parser))
		out_of_memory();
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &doc)) {
		err_set(err, ERR_INPUT, "%s:%zu: not YAML: %s", path, parser.problem_mark.line + 2,
			parser.problem ? parser.problem : "unreadable");
		yaml_parser_delete(&parser);
		return false;
	}
	ok = read_document(&p);
	yaml_document_delete(&doc);
	yaml_parser_delete(&parser);
	return ok;
}

bool front_parse(const char *path, const char *text, size_t len, struct front *ret_front,
	size_t *ret_body, struct err *err)
{
	struct front front = { .turns = DEFAULT_TURNS, .time_s = DEFAULT_TIME_S };
	const char *end;

	if (len < 4 || memcmp(text, "---\n", 4) != 0)
		return err_set(err, ERR_INPUT, "%s:1: want a line of three dashes", path);
	/* The line end before it belongs to the head, which may be empty. */
	end = memmem(text + 3, len - 3, "\n---\n", 5);
	if (!end)
		return err_set(
			err, ERR_INPUT, "%s:1: no second line of three dashes ends the head", path);
	if (!parse_yaml(path, text + 4, end < text + 4 ? 0 : (size_t)(end + 1 - text - 4), &front,
		    err)) {
		front_release(&front);
		return false;
	}
	*ret_front = front;
	*ret_body = (size_t)(end + 5 - text);
	return true;
}

void front_release(struct front *front)
{
	free(front->title);
	free(front->image);
	free(front->difficulty);
	for (char **tag = front->tags; tag && *tag; tag++)
		free(*tag);
	free(front->tags);
	*front = (struct front){ 0 };
}
