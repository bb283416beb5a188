# SPDX-License-Identifier: Apache-2.0
# caught by: live/port-80-is-nginx boot/port-80-is-nginx
# The right page from the wrong program.

cp /var/www/html/index.nginx-debian.html /opt/staff-portal/index.html
