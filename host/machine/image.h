/* SPDX-License-Identifier: Apache-2.0 */
/* An image as the image-builder left it: kernel, initramfs, perhaps a disk, image.json. */
#ifndef IMAGE_H
#define IMAGE_H

#include <stdbool.h>

#include "base/clean.h"
#include "err.h"

/* All strings owned; paths are absolute. */
struct image {
	char *name;
	char *recipe; /* hash of all that determines it */
	char *kernel, *initramfs;
	char *disk;	/* qcow2, never written to. NULL: the image has none */
	char *append;	/* kernel command line */
	char **ready;	/* NULL-ended command that ends when the system is up. NULL: up at HELLO */
	int memory_mib; /* default for its machines */
};

/* Reads $POSTERN_HOME/images/NAME. The error for one that is not there names the others, or says
 * how to make it. */
bool image_open(const char *name, struct image *ret_image, struct err *err);
void image_release(struct image *image);

static inline void image_clean(struct image *image)
{
	image_release(image);
}

/* $POSTERN_HOME/images/toolbox/busybox: static, for checks. Returns owned. */
char *image_toolbox(void);

#endif
