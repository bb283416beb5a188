/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files and folders of the host. */
#ifndef FILE_H
#define FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "err.h"

/* Reads a whole regular file of at most max bytes; adds to out. */
bool file_read(const char *path, size_t max, struct buf *out, struct err *err);

/* Writes beside and renames: readers see the old content or the new. */
bool file_write(const char *path, const void *data, size_t len, struct err *err);

/* The same for its owner's eyes alone. */
bool file_write_private(const char *path, const void *data, size_t len, struct err *err);

/* The number behind a word that begins a line of a file of the kernel's; -1: there is none. */
long long file_number(const char *path, const char *word);

bool file_exists(const char *path);
/* Surely not there; one in a folder that can't be looked into may be. */
bool file_is_missing(const char *path);

/* The path, or the nearest folder above it that is there. Returns owned. */
char *file_nearest(const char *path);

/* Makes a folder and its parents. One that is there is fine. */
bool dir_make(const char *path, struct err *err);

/* Removes a folder of ours with all that is in it; follows no links. */
bool dir_remove(const char *path, struct err *err);

/* Names of the folders in dir that hold this file, or may hold it, sorted, joined by ", ". Owned;
 * NULL: none, as when there is no dir. */
bool dir_list(const char *dir, const char *file, char **ret_names, struct err *err);

/* Takes the next name out of a list that is joined by ", " or by blanks, which is cut up by that.
 * NULL: there is no more, or no list. */
char *list_next(char **rest);

/* $POSTERN_HOME, or the default below the user's data folder. Returns owned. */
char *home_path(const char *below);

#endif
