# SPDX-License-Identifier: Apache-2.0
# Mask the unit: the file makes way for a link to /dev/null.

systemctl stop staff-portal
mv /etc/systemd/system/staff-portal.service /root/staff-portal.service.old
systemctl mask staff-portal
systemctl restart nginx
