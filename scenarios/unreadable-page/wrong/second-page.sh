# SPDX-License-Identifier: Apache-2.0
# caught by: live/page-by-name boot/page-by-name
# Put a copy in front of the page, which stays forbidden.

cat /var/www/html/index.nginx-debian.html >/var/www/html/index.html
