/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests in C: one process per test, a deadline each, TAP on stdout.
 *
 *	TEST(adds) { CHECK_INT(1 + 1, 2); }
 *
 * A test fails when a check fails, when it dies, when its deadline passes, or when it leaves a
 * descriptor open that was closed before. What it leaves running is killed with it, if it stayed
 * in its process group. `PROGRAM NAME...` runs those tests alone.
 */
#ifndef TEST_H
#define TEST_H

#include <stdbool.h>
#include <stddef.h>

#define TEST_SECONDS 20

struct test {
	const char *name;
	void (*run)(void);
	unsigned seconds;
	struct test *next;
};

/* Borrows the test for ever. */
void test_register(struct test *test);

#define TEST(id) TEST_WITHIN(id, TEST_SECONDS)

/* The same with a deadline of its own, in seconds. */
#define TEST_WITHIN(id, limit)                                                                     \
	static void test_##id(void);                                                               \
	__attribute__((constructor)) static void register_##id(void)                               \
	{                                                                                          \
		static struct test self = { .name = #id, .run = test_##id, .seconds = (limit) };   \
		test_register(&self);                                                              \
	}                                                                                          \
	static void test_##id(void)

/* Each ends the test when it does not hold, and prints both values. */
#define CHECK(cond) test_check((cond), #cond, __FILE__, __LINE__)
#define CHECK_INT(got, want)                                                                       \
	test_check_int((long long)(got), (long long)(want), #got, __FILE__, __LINE__)
#define CHECK_STR(got, want)	test_check_str((got), (want), #got, __FILE__, __LINE__)
#define CHECK_MEM(got, want, n) test_check_mem((got), (want), (n), #got, __FILE__, __LINE__)

/* A script of sh in the current folder must end well. */
#define CHECK_SHELL(script) test_check_shell((script), __FILE__, __LINE__)

/* Ends the test: it could not be run, and this is why. */
#define SKIP(reason) test_skip(reason)

void test_check(bool holds, const char *what, const char *file, int line);
void test_check_int(long long got, long long want, const char *what, const char *file, int line);
void test_check_str(
	const char *got, const char *want, const char *what, const char *file, int line);
void test_check_mem(
	const void *got, const void *want, size_t n, const char *what, const char *file, int line);
void test_check_shell(const char *script, const char *file, int line);
_Noreturn void test_skip(const char *reason);

#endif
