# SPDX-License-Identifier: Apache-2.0
# caught by: boot/site-answers
# Cover the page with a readable copy until the next boot.

cat /var/www/html/index.nginx-debian.html >/run/index.html
mount --bind /run/index.html /var/www/html/index.nginx-debian.html
