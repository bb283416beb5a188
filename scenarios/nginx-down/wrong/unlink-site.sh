# SPDX-License-Identifier: Apache-2.0
# caught by: live/docs-site boot/docs-site
# Get rid of the site that makes trouble.

rm /etc/nginx/sites-enabled/docs
systemctl enable --now nginx
