/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON values: the only door to the JSON library.
 *
 * A struct json * is a tree. A value put into another belongs to it; only the root is freed. All
 * readers accept NULL, and a value of the wrong kind reads as absent.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clean.h"
#include "err.h"

struct json; /* a cJSON node */

/* Returns owned. Nesting is bounded; bytes behind the value are an error. NULL on failure. */
struct json *json_parse(const char *text, size_t len, struct err *err);
struct json *json_parse_file(const char *path, size_t max, struct err *err);
void json_free(struct json *j);

static inline void json_clean(struct json **j)
{
	json_free(*j);
}

static inline struct json *json_take(struct json **j)
{
	struct json *out = *j;

	*j = NULL;
	return out;
}

/* Makers; return owned. */
struct json *json_object(void);
struct json *json_array(void);
struct json *json_string(const char *s); /* s is UTF-8; NULL gives null */
struct json *json_number(double n);
struct json *json_bool(bool b);
struct json *json_null(void);
struct json *json_copy(const struct json *j);

/* Put into an object (takes value, replaces the key) or at the end of an array. Return value. */
struct json *json_set(struct json *object, const char *key, struct json *value);
struct json *json_add(struct json *array, struct json *value);
void json_set_str(struct json *object, const char *key, const char *s);
void json_set_int(struct json *object, const char *key, int64_t n);
void json_set_bool(struct json *object, const char *key, bool b);

/* Readers. Borrowed from the tree. */
struct json *json_get(const struct json *object, const char *key); /* NULL: absent or null */
struct json *json_at(const struct json *array, size_t i);	   /* NULL: past the end */
size_t json_len(const struct json *array);			   /* 0: not an array or object */
bool json_is_object(const struct json *j);
bool json_is_array(const struct json *j);
bool json_is_number(const struct json *j);
const char *json_text(const struct json *j); /* NULL: not a string */
const char *json_name(const struct json *j); /* its key in an object; NULL: it is in none */
const char *json_get_str(const struct json *object, const char *key); /* NULL: absent */
int64_t json_get_int(const struct json *object, const char *key, int64_t otherwise);
bool json_get_bool(const struct json *object, const char *key, bool otherwise);

/* Returns owned text: one line, or indented. */
char *json_line(const struct json *j);
char *json_pretty(const struct json *j);

#endif
