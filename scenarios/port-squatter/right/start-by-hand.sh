# SPDX-License-Identifier: Apache-2.0
# Start nginx without systemd; its unit is still enabled for the next boot.

systemctl disable --now staff-portal
/usr/sbin/nginx
