/* SPDX-License-Identifier: Apache-2.0 */
/* Takes back what a transfer made. */
#ifndef TREE_REMOVE_H
#define TREE_REMOVE_H

/* Removes all that is in the folder dir, which stays open; what can't be removed stays. Follows no
 * link. Folders may have any mode. */
void tree_remove_below(int dir);

#endif
