# SPDX-License-Identifier: Apache-2.0
# caught by: live/page-unchanged boot/page-unchanged
# Let nginx say that all is well.

sed -i 's|^\(\s*\)try_files .*|\1return 200 "ok";|' /etc/nginx/sites-available/default
systemctl reload nginx
