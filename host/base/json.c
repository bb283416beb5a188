/* SPDX-License-Identifier: Apache-2.0 */
/* JSON values on cJSON. */
#include "json.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "buf.h"
#include "file.h"
#include "xalloc.h"

static cJSON *node(const struct json *j)
{
	union {
		const struct json *ours;
		cJSON *theirs;
	} u = { .ours = j };

	return u.theirs;
}

static struct json *ours(cJSON *c)
{
	return (struct json *)c;
}

/* The library returns NULL only when memory is gone. */
static struct json *made(cJSON *c)
{
	if (!c)
		out_of_memory();
	return ours(c);
}

struct json *json_parse(const char *text, size_t len, struct err *err)
{
	const char *end = NULL;
	cJSON *c = cJSON_ParseWithLengthOpts(text, len, &end, false);

	if (!c) {
		err_set(err, ERR_INPUT, "not JSON, at byte %zu", end ? (size_t)(end - text) : 0);
		return NULL;
	}
	end += strspn(end, " \t\r\n");
	if (end < text + len && *end) {
		err_set(err, ERR_INPUT, "more than one JSON value");
		cJSON_Delete(c);
		return NULL;
	}
	return ours(c);
}

struct json *json_parse_file(const char *path, size_t max, struct err *err)
{
	CLEAN(buf) struct buf text = { 0 };
	struct json *j;

	if (!file_read(path, max, &text, err))
		return NULL;
	j = json_parse(buf_text(&text), text.len, err);
	if (!j)
		err_in(err, "%s", path);
	return j;
}

void json_free(struct json *j)
{
	cJSON_Delete(node(j));
}

struct json *json_object(void)
{
	return made(cJSON_CreateObject());
}

struct json *json_array(void)
{
	return made(cJSON_CreateArray());
}

struct json *json_string(const char *s)
{
	return made(s ? cJSON_CreateString(s) : cJSON_CreateNull());
}

struct json *json_number(double n)
{
	return made(cJSON_CreateNumber(n));
}

struct json *json_bool(bool b)
{
	return made(cJSON_CreateBool(b));
}

struct json *json_null(void)
{
	return made(cJSON_CreateNull());
}

struct json *json_copy(const struct json *j)
{
	return made(j ? cJSON_Duplicate(node(j), true) : cJSON_CreateNull());
}

struct json *json_set(struct json *object, const char *key, struct json *value)
{
	cJSON_DeleteItemFromObjectCaseSensitive(node(object), key);
	cJSON_AddItemToObject(node(object), key, node(value));
	return value;
}

struct json *json_add(struct json *array, struct json *value)
{
	cJSON_AddItemToArray(node(array), node(value));
	return value;
}

void json_set_str(struct json *object, const char *key, const char *s)
{
	json_set(object, key, json_string(s));
}

void json_set_int(struct json *object, const char *key, int64_t n)
{
	json_set(object, key, json_number((double)n));
}

void json_set_bool(struct json *object, const char *key, bool b)
{
	json_set(object, key, json_bool(b));
}

struct json *json_get(const struct json *object, const char *key)
{
	cJSON *c = cJSON_GetObjectItemCaseSensitive(node(object), key);

	return c && !cJSON_IsNull(c) ? ours(c) : NULL;
}

struct json *json_at(const struct json *array, size_t i)
{
	return i < json_len(array) ? ours(cJSON_GetArrayItem(node(array), (int)i)) : NULL;
}

size_t json_len(const struct json *array)
{
	if (!json_is_array(array) && !json_is_object(array))
		return 0;
	return (size_t)cJSON_GetArraySize(node(array));
}

bool json_is_object(const struct json *j)
{
	return cJSON_IsObject(node(j));
}

bool json_is_array(const struct json *j)
{
	return cJSON_IsArray(node(j));
}

bool json_is_number(const struct json *j)
{
	return cJSON_IsNumber(node(j));
}

const char *json_name(const struct json *j)
{
	return j ? node(j)->string : NULL;
}

const char *json_text(const struct json *j)
{
	return cJSON_GetStringValue(node(j));
}

const char *json_get_str(const struct json *object, const char *key)
{
	return json_text(json_get(object, key));
}

int64_t json_get_int(const struct json *object, const char *key, int64_t otherwise)
{
	const struct json *j = json_get(object, key);
	double n;

	if (!json_is_number(j))
		return otherwise;
	n = cJSON_GetNumberValue(node(j));
	return n > -9e15 && n < 9e15 ? (int64_t)n : otherwise;
}

bool json_get_bool(const struct json *object, const char *key, bool otherwise)
{
	const struct json *j = json_get(object, key);

	return cJSON_IsBool(node(j)) ? cJSON_IsTrue(node(j)) : otherwise;
}

/* The library allocates with malloc, so the text can be freed like all of ours. */
char *json_line(const struct json *j)
{
	char *text = cJSON_PrintUnformatted(node(j));

	return text ? text : xstrdup("null");
}

char *json_pretty(const struct json *j)
{
	char *text = cJSON_Print(node(j));

	return text ? text : xstrdup("null");
}
