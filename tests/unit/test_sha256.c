/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256: the vectors of FIPS 180-4, every length around the block size, any pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sha256.h"
#include "test.h"

static void hash_text(const void *data, size_t len, size_t step, char text[65])
{
	const uint8_t *at = data;
	struct sha256 s;

	sha256_init(&s);
	for (size_t n; len; at += n, len -= n) {
		n = len < step ? len : step;
		sha256_add(&s, at, n);
	}
	sha256_end_text(&s, text);
}

TEST(vectors)
{
	static const struct {
		const char *text, *hash;
	} rows[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
			"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnop"
		  "qklmnopqrlmnopqrsmnopqrstnopqrstu",
			"cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
	};
	char text[65];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		hash_text(rows[i].text, strlen(rows[i].text), 1000, text);
		CHECK_STR(text, rows[i].hash);
	}
}

TEST_WITHIN(a_million_letters, 60)
{
	char *letters = malloc(1000000), text[65];

	memset(letters, 'a', 1000000);
	for (size_t step = 1; step <= 1000000; step = step * 7 + 1) {
		hash_text(letters, 1000000, step, text);
		CHECK_STR(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	}
	free(letters);
}

static void write_file(const char *path, const void *data, size_t len)
{
	FILE *f = fopen(path, "w");

	CHECK(f && fwrite(data, 1, len, f) == len);
	CHECK_INT(fclose(f), 0);
}

/* What sha256sum says of files of these lengths. */
TEST(every_length_to_200)
{
	char dir[] = "/tmp/sha256.XXXXXX", path[128], text[65], line[65];
	uint8_t data[200];
	FILE *f;

	if (system("sha256sum </dev/null >/dev/null 2>&1") != 0)
		SKIP("no sha256sum");
	CHECK(mkdtemp(dir));
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (size_t len = 0; len <= sizeof(data); len++) {
		(void)snprintf(path, sizeof(path), "%s/%03zu", dir, len);
		write_file(path, data, len);
	}
	(void)snprintf(path, sizeof(path), "cd %s && sha256sum -- * && rm -r %s", dir, dir);
	f = popen(path, "r");
	CHECK(f);
	for (size_t len = 0; len <= sizeof(data); len++) {
		CHECK_INT(fscanf(f, "%64s%*s", line), 1);
		hash_text(data, len, len % 70 + 1, text);
		CHECK_STR(text, line);
	}
	CHECK_INT(pclose(f), 0);
}
