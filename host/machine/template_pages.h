/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are mostly holes: copied and hashed page by page.
 *
 * The hash is the SHA-256 of the file's size, then of each page of 4096 bytes that is not all zero:
 * its number, then its bytes (the last page may be shorter). Both numbers have 8 bytes, the lowest
 * first. So it says the same of two files that read alike, however their holes lie, and pages of
 * zeros cost little.
 */
#ifndef TEMPLATE_PAGES_H
#define TEMPLATE_PAGES_H

#include <stdbool.h>

#include "err.h"
#include "sha256.h"

/* Copies a descriptor's file to a new one, without its pages of zeros; that one is then on disk. */
bool pages_copy(int from, const char *path, char ret_hash[SHA256_TEXT], struct err *err);
/* Makes a new file that reads like another: it shares that one's blocks where the file system can
 * do that, else it is a copy without the pages of zeros. */
bool pages_clone(const char *from, const char *path, struct err *err);
bool pages_hash(const char *path, char ret_hash[SHA256_TEXT], struct err *err);
/* Waits until a file is on disk. */
bool pages_sync(const char *path, struct err *err);

#endif
