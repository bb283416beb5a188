# SPDX-License-Identifier: Apache-2.0
# Keep the old application, on a port of its own.

sed -i 's/ = 80;/ = 8081;/' /opt/staff-portal/portal.pl
systemctl restart staff-portal
systemctl start nginx
