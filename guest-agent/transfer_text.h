/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence in which a transfer says what it failed at. */
#ifndef TRANSFER_TEXT_H
#define TRANSFER_TEXT_H

#include "transfer.h"
#include "wire.h"

/* "TOP/REST: WHY", printable, a long path cut at its front; rest may be empty. WHY is the text of
 * error where why is NULL. The first failure stays. Always returns false. */
bool transfer_fail(struct transfer_result *result, int error, const char *top, struct bytes rest,
	const char *why);

#endif
