# SPDX-License-Identifier: Apache-2.0
# caught by: live/site-answers boot/site-answers
# The usual advice: change the owner. An owner without permission bits can't read either.

chown -R www-data:www-data /var/www
systemctl restart nginx
