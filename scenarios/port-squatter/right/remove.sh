# SPDX-License-Identifier: Apache-2.0
# Remove the old application with its unit, then kill what still runs.

rm /etc/systemd/system/multi-user.target.wants/staff-portal.service
rm /etc/systemd/system/staff-portal.service
systemctl daemon-reload
fuser -k -KILL 80/tcp
rm -r /opt/staff-portal
systemctl restart nginx
