# SPDX-License-Identifier: Apache-2.0
# caught by: boot/default-site boot/docs-site boot/nginx-enabled
# Mend and start, but don't enable.

sed -i 's|root /var/www/docs$|&;|' /etc/nginx/sites-available/docs
systemctl start nginx
