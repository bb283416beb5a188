/* SPDX-License-Identifier: Apache-2.0 */
/* What every life of the agent on a real machine shares, and the one that is started by hand. */
#ifndef SERVICE_H
#define SERVICE_H

/* The channel must live when nothing else does. */
void service_protect(void);

/* On a machine that has the port, started by its init or by hand; ends quietly when another agent
 * holds the port. */
_Noreturn void service_run(void);

#endif
