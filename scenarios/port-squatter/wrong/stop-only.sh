# SPDX-License-Identifier: Apache-2.0
# caught by: boot/page-unchanged boot/port-80-is-nginx
# Stop the unit, but leave it enabled.

systemctl stop staff-portal
systemctl start nginx
