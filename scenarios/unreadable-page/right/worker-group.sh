# SPDX-License-Identifier: Apache-2.0
# Least privilege: of all accounts only the one of the workers may read the page.

chgrp www-data /var/www/html/index.nginx-debian.html
chmod 0640 /var/www/html/index.nginx-debian.html
