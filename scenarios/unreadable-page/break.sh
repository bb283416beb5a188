# SPDX-License-Identifier: Apache-2.0
# The start page loses all its permission bits.

chmod 000 /var/www/html/index.nginx-debian.html
