/* SPDX-License-Identifier: Apache-2.0 */
/* Every size and count that host and agent agree on. */
#ifndef LIMITS_H
#define LIMITS_H

#include <assert.h>

#define PROTOCOL_GENERATION 2
#define PORT_NAME	    "channel.0" /* the virtio-serial port */

#define FRAME_HEADER   24		  /* bytes before each payload */
#define FRAME_OVERHEAD (FRAME_HEADER + 1) /* and the end byte behind it */
#define PAYLOAD_MAX    65536		  /* bytes of payload in one frame, at most */
#define FRAME_MAX      (PAYLOAD_MAX + FRAME_OVERHEAD)
#define BULK_CHUNK     (32768 - FRAME_OVERHEAD) /* a port takes 32 KiB in one write */
#define CONTROL_QUEUE  65536 /* bytes of control frames that may wait for the port */

#define STREAM_WINDOW 262144 /* bytes that may be under way on one stream, one way */

#define OPERATIONS_MAX	 16	     /* commands and transfers at one time */
#define OPERATION_ID_MAX 0x3fffffffu /* a stream number is id * 4 + one of enum stream_part */

/* Where programs are looked for when nobody says otherwise, as a variable and as its value. */
#define SEARCH_PATH_PAIR "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define SEARCH_PATH	 (&SEARCH_PATH_PAIR[sizeof("PATH=") - 1])

#define ARGS_MAX    512	 /* strings in an argument vector */
#define ENV_MAX	    128	 /* strings in an environment */
#define PATH_LENGTH 4096 /* bytes of a path, its NUL included */
#define SEED_MAX    256	 /* bytes of entropy in one HEAL */
#define TEXT_MAX    256	 /* bytes of a reason meant for people */
#define USER_LENGTH 32	 /* bytes of a user's name, at most */
#define COMM_LENGTH 15	 /* bytes of a process's name, at most */
#define LEFT_MAX    16	 /* processes left behind that are named */

static_assert(BULK_CHUNK <= PAYLOAD_MAX, "a chunk fits a frame");
static_assert(STREAM_WINDOW >= 4 * PAYLOAD_MAX, "a window holds some frames");
static_assert(CONTROL_QUEUE >= FRAME_HEADER + 1024, "an answer always fits an empty queue");

#endif
