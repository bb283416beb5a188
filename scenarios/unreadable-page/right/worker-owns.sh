# SPDX-License-Identifier: Apache-2.0
# The account of the workers owns the page and may only read it.

chown www-data: /var/www/html/index.nginx-debian.html
chmod 0400 /var/www/html/index.nginx-debian.html
