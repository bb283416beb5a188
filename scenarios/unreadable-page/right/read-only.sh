# SPDX-License-Identifier: Apache-2.0
# Everybody may read the page, nobody needs to write it.

chmod 0444 /var/www/html/index.nginx-debian.html
