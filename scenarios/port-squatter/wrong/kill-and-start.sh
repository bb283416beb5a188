# SPDX-License-Identifier: Apache-2.0
# caught by: boot/page-unchanged boot/port-80-is-nginx
# Win the race against systemd once; the next boot loses it.

fuser -k -KILL 80/tcp
systemctl start nginx
