# SPDX-License-Identifier: Apache-2.0
# Give the page the mode that the package gave it.

chmod 0644 /var/www/html/index.nginx-debian.html
