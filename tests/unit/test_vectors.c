/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of tests/conformance are the very bytes that protocol/ writes and reads. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/text.h"
#include "frame.h"
#include "messages.h"
#include "sha256.h"
#include "test.h"
#include "treestream.h"

#define FILE_NAME "tests/conformance/messages.vec"

static struct vector {
	char kind[16], name[120], words[4096], hex[4096];
	struct bytes bytes;
} vector;

static struct text text;
static size_t seen;

/* The words make the bytes that the hex digits say. A hash can't be made of words. */
static void complete(void)
{
	static uint8_t bytes[TEXT_ROOM];
	static struct text hex;
	const struct text_names names = { .dir = "" };
	struct err err;
	bool made = text_read(&text, vector.words, &names, bytes_of(NULL, 0), &err) &&
		    text_read(&hex, vector.hex, &names, bytes_of(NULL, 0), &err);

	if (!made)
		printf("# %s %s: %s\n", vector.kind, vector.name, err.text);
	CHECK(made);
	if (hex.len && strcmp(vector.kind, "sha256") != 0) {
		CHECK_INT(hex.len, text.len);
		CHECK_MEM(text.byte, hex.byte, hex.len);
	}
	memcpy(bytes, text.byte, text.len);
	vector.bytes = bytes_of(bytes, text.len);
}

static void append(char *to, size_t size, const char *line)
{
	size_t len = strlen(to);

	CHECK(snprintf(to + len, size - len, "%s ", line) < (int)(size - len));
}

/* Reads the next vector. */
static bool next_vector(FILE *file)
{
	static char line[512], begun[sizeof(line) + 1];

	if (!*begun && !fgets(begun, sizeof(begun), file))
		return false;
	memset(&vector, 0, sizeof(vector));
	while (*begun == '#' || *begun == '\n')
		if (!fgets(begun, sizeof(begun), file))
			return false;
	begun[strcspn(begun, "\n")] = 0;
	CHECK(sscanf(begun, "%15s %119[^\n]", vector.kind, vector.name) == 2);
	*begun = 0;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (*line != '\t') {
			(void)snprintf(begun, sizeof(begun), "%s\n", line);
			break;
		}
		if (line[1] == '=')
			append(vector.hex, sizeof(vector.hex), line + 2);
		else
			append(vector.words, sizeof(vector.words), line + 1);
	}
	complete();
	return true;
}

static void each(const char *kind, void (*check)(void))
{
	FILE *file = fopen(FILE_NAME, "r");

	CHECK(file != NULL);
	seen = 0;
	while (next_vector(file)) {
		if (strcmp(vector.kind, kind) != 0)
			continue;
		printf("# %s %s\n", vector.kind, vector.name);
		check();
		seen++;
	}
	fclose(file);
	CHECK(seen > 0);
}

static void say_whether_known(void)
{
	static const char *const kinds[] = { "bytes", "sha256", "frame", "noframe", "message",
		"malformed", "tree", "manifest", "notree" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i], vector.kind))
			return;
	printf("# %s is no kind of vector\n", vector.kind);
	CHECK(false);
}

TEST(every_vector_is_of_a_known_kind)
{
	FILE *file = fopen(FILE_NAME, "r");

	CHECK(file != NULL);
	while (next_vector(file))
		say_whether_known();
	fclose(file);
}

static void check_sha256(void)
{
	struct sha256 s;
	char digits[SHA256_TEXT];

	sha256_init(&s);
	sha256_add(&s, vector.bytes.data, vector.bytes.len);
	sha256_end_text(&s, digits);
	CHECK(strstr(vector.hex, digits) != NULL);
}

TEST(hashes)
{
	each("sha256", check_sha256);
}

static struct inbox in;

static void feed(void)
{
	size_t room;
	uint8_t *space;

	inbox_clear(&in);
	in.skipped = 0;
	space = inbox_space(&in, &room);
	CHECK(room >= vector.bytes.len);
	memcpy(space, vector.bytes.data, vector.bytes.len);
	inbox_filled(&in, vector.bytes.len);
}

static void check_frame(void)
{
	static uint8_t again[FRAME_MAX];
	struct frame f;

	feed();
	CHECK(inbox_next(&in, &f));
	CHECK_INT(frame_put(again, &f), vector.bytes.len);
	CHECK_MEM(again, vector.bytes.data, vector.bytes.len);
}

static void check_noframe(void)
{
	struct frame f;

	feed();
	CHECK(!inbox_next(&in, &f));
	CHECK(in.skipped > 0);
}

TEST(frames)
{
	each("frame", check_frame);
	each("noframe", check_noframe);
}

/* Reads a payload; what was read is written again into `again`. False: it is malformed. */
static uint8_t again[PAYLOAD_MAX];
static struct writer out;

#define REWRITE(name)                                                                              \
	static bool rewrite_##name(struct bytes body)                                              \
	{                                                                                          \
		static struct msg_##name m;                                                        \
                                                                                                   \
		if (!get_##name(body, &m))                                                         \
			return false;                                                              \
		put_##name(&out, &m);                                                              \
		return true;                                                                       \
	}

#define CODECS(C)                                                                                  \
	C(HELLO, hello)                                                                            \
	C(EXEC, exec)                                                                              \
	C(STARTED, started)                                                                        \
	C(FAILED, failed)                                                                          \
	C(CREDIT, credit)                                                                          \
	C(EXIT, exit)                                                                              \
	C(PUT, put)                                                                                \
	C(DONE, done)                                                                              \
	C(PREPARE, prepare)                                                                        \
	C(PREPARED, prepared)                                                                      \
	C(HEAL, heal)                                                                              \
	C(HEALED, healed)                                                                          \
	C(PING, ping)                                                                              \
	C(PONG, pong)                                                                              \
	C(SIGNAL, signal)                                                                          \
	C(RESIZE, resize)                                                                          \
	C(QUERY, query)                                                                            \
	C(STATUS, status)                                                                          \
	C(GET, get)

#define C(code, name) REWRITE(name)
CODECS(C)
#undef C

static bool (*const rewrites[])(struct bytes body) = {
#define C(code, name) [MSG_##code] = rewrite_##name,
	CODECS(C)
#undef C
};

#define CODES (sizeof(rewrites) / sizeof(*rewrites))

/* The message that a vector's name begins with. */
static unsigned code_of(const char *name)
{
	size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	for (unsigned i = 1; i < CODES; i++)
		if (strlen(message_name(i)) == len && !strncmp(message_name(i), name, len) &&
			rewrites[i])
			return i;
	return 0;
}

static bool rewrite(void)
{
	unsigned code = code_of(vector.name);

	CHECK(code != 0);
	out = writer_of(again, sizeof(again));
	return rewrites[code](vector.bytes);
}

static bool covered[CODES];

static void check_message(void)
{
	CHECK(rewrite());
	CHECK(!out.bad);
	CHECK_INT(out.at - again, vector.bytes.len);
	CHECK_MEM(again, vector.bytes.data, vector.bytes.len);
	covered[code_of(vector.name)] = true;
}

static void check_malformed(void)
{
	CHECK(!rewrite());
}

/* Cut short anywhere, or with a byte behind it, no message is one. */
static void check_whole_or_nothing(void)
{
	static uint8_t bytes[4096];
	size_t len = vector.bytes.len;

	CHECK(len < sizeof(bytes));
	memcpy(bytes, vector.bytes.data, len);
	bytes[len] = 0;
	for (size_t i = 0; i <= len + 1; i++) {
		vector.bytes = bytes_of(bytes, i);
		CHECK(i == len || !rewrite());
	}
}

TEST(messages)
{
	each("message", check_message);
	each("malformed", check_malformed);
	each("message", check_whole_or_nothing);
	for (unsigned i = 1; i < CODES; i++)
		CHECK(covered[i] || !rewrites[i]);
}

#define MANIFEST true

/* Reads the stream in pieces of `step`, and writes it again. */
static bool reread(bool manifest, size_t step, struct writer *w)
{
	static struct tree_reader r;
	struct tree_item item;

	tree_reader_init(&r, manifest);
	for (size_t at = 0; at < vector.bytes.len && !r.wrong; at += step) {
		size_t left = vector.bytes.len - at;
		struct bytes piece = { vector.bytes.data + at, left < step ? left : step };

		while (tree_next(&r, &piece, &item)) {
			if (item.kind == TREE_ENTRY)
				put_tree_entry(w, &item.entry);
			else if (item.kind == TREE_EXTENT)
				put_tree_extent(w, &item.extent);
			else if (item.kind == TREE_FILE_END)
				put_tree_file_end(w, item.sha256);
			else if (item.kind == TREE_FAULT)
				put_tree_fault(w, &item.fault);
			else
				put_tree_end(w, item.entries);
		}
	}
	return tree_complete(&r);
}

static void check_stream(bool manifest)
{
	for (size_t step = 1; step <= vector.bytes.len; step = step * 3 + 1) {
		struct writer w = writer_of(again, sizeof(again));

		CHECK(reread(manifest, step, &w));
		CHECK(!w.bad);
		CHECK_INT(w.at - again, vector.bytes.len);
		CHECK_MEM(again, vector.bytes.data, vector.bytes.len);
	}
}

static void check_tree(void)
{
	check_stream(!MANIFEST);
}

static void check_manifest(void)
{
	check_stream(MANIFEST);
}

static void check_notree(void)
{
	struct writer w = writer_of(again, sizeof(again));

	CHECK(!reread(!MANIFEST, vector.bytes.len, &w));
}

TEST(trees)
{
	each("tree", check_tree);
	each("manifest", check_manifest);
	each("notree", check_notree);
}

static void find(const char *name)
{
	FILE *file = fopen(FILE_NAME, "r");
	bool found = false;

	CHECK(file != NULL);
	while (!found && next_vector(file))
		found = !strcmp(vector.kind, "message") && !strcmp(vector.name, name);
	fclose(file);
	CHECK(found);
}

/* These fields make the vector of that name. */
#define SAYS(name, codec, ...)                                                                     \
	do {                                                                                       \
		find(name);                                                                        \
		out = writer_of(again, sizeof(again));                                             \
		put_##codec(&out, &(struct msg_##codec){ __VA_ARGS__ });                           \
		CHECK_INT(out.at - again, vector.bytes.len);                                       \
		CHECK_MEM(again, vector.bytes.data, vector.bytes.len);                             \
	} while (0)

#define S(text) bytes_of(text, sizeof(text) - 1)

TEST(fields_of_operations)
{
	SAYS("EXEC with all there is", exec, .flags = EXEC_STDIN | EXEC_AGENT_ROOT | EXEC_PTY,
		.rows = 24, .columns = 80, .deadline_ms = 60000, .grace_ms = 500,
		.output_max = 1 << 20, .user = S("www-data"), .dir = S("/srv"), .argc = 4,
		.argv = { S("sh"), S("-c"), S("echo \"$A\""), S("") }, .envc = 2,
		.env = { S("PATH=/usr/bin:/bin"), S("A=b c") });
	SAYS("STARTED", started, .pid = 4711);
	SAYS("FAILED: not found", failed, .kind = FAIL_NOT_FOUND, .error = 2,
		.text = S("no such program"));
	SAYS("CREDIT of a whole window", credit, .bytes = STREAM_WINDOW);
	SAYS("EXIT with a code", exit, .value = 3, .stdout_bytes = 12, .stderr_bytes = 5);
	SAYS("EXIT by a signal at the deadline, output cut, two left behind", exit,
		.flags = EXIT_SIGNALLED | EXIT_TIMED_OUT, .value = 9, .stdout_bytes = 1024,
		.stdout_cut = 99, .left_behind = 2, .listed = 2,
		.left = { { 80, S("sleep") }, { 81, S("nginx") } });
	SAYS("SIGNAL", signal, .number = 15);
	SAYS("RESIZE", resize, .rows = 50, .columns = 132);
	SAYS("QUERY", query, .stdout_credit = STREAM_WINDOW, .stderr_credit = 1000);
	SAYS("STATUS of a command that runs", status, .state = STATUS_RUNS, .stdin_bytes = 70000,
		.stdin_credit = STREAM_WINDOW, .stdout_bytes = 5000000000);
	SAYS("PUT", put, .flags = TREE_AGENT_ROOT, .path = S("/srv/www"));
	SAYS("GET of a manifest of everything", get, .flags = TREE_MANIFEST, .path = S("/"));
	SAYS("DONE", done, .entries = 3, .bytes = 4096);
}

TEST(fields_of_the_session)
{
	SAYS("HELLO that answers: held and frozen", hello, .generation = PROTOCOL_GENERATION,
		.build = 7,
		.nonce = { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
			0xcc, 0xdd, 0xee, 0xff },
		.epoch = { 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 },
		.boot_id = { 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac,
			0xad, 0xae, 0xaf, 0xb0 },
		.flags = HELLO_HELD | HELLO_FROZEN);
	SAYS("PREPARE", prepare, .deadline_ms = 30000);
	SAYS("PREPARED", prepared, .running = 2);
	SAYS("HEAL", heal, .realtime_ns = 1700000000123456789,
		.seed = S("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17"));
	SAYS("HEALED", healed, .error = 1);
	SAYS("PING", ping, .token = 0x0123456789abcdef);
	SAYS("PONG", pong, .token = 0x0123456789abcdef, .uptime_ms = 61000, .cpu = 1250,
		.io = PRESSURE_UNKNOWN, .operations = 3);
}
