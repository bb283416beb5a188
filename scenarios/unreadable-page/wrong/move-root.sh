# SPDX-License-Identifier: Apache-2.0
# caught by: live/served-from-its-place boot/served-from-its-place
# Serve a copy from elsewhere and leave the page as it is.

mkdir -p /srv/site
cat /var/www/html/index.nginx-debian.html >/srv/site/index.html
cat /var/www/html/index.nginx-debian.html >/srv/site/index.nginx-debian.html
sed -i 's|^\(\s*root\) /var/www/html;|\1 /srv/site;|' /etc/nginx/sites-available/default
systemctl reload nginx
