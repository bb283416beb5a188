# SPDX-License-Identifier: Apache-2.0
# caught by: live/page-unchanged live/port-80-is-nginx boot/page-unchanged
# Dodge the conflict: nginx runs, but nobody finds it.

sed -i 's/^\(\s*listen .*\)80 default_server/\18080 default_server/' /etc/nginx/sites-available/default
systemctl start nginx
