# SPDX-License-Identifier: Apache-2.0
# Mend the directive, then start nginx now and at every boot.

sed -i 's|root /var/www/docs$|&;|' /etc/nginx/sites-available/docs
systemctl enable --now nginx
