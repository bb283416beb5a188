# SPDX-License-Identifier: Apache-2.0
# caught by: live/page-unchanged live/port-80-is-nginx boot/port-80-is-nginx
# Kill the process and call it done: systemd brings it back, nginx stays down.

fuser -k -KILL 80/tcp
