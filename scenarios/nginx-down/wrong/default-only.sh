# SPDX-License-Identifier: Apache-2.0
# caught by: live/shop-site live/docs-site live/status-health boot/shop-site
# Include the default site alone: nginx runs, and every name shows the same page.

sed -i 's|sites-enabled/\*;|sites-enabled/default;|' /etc/nginx/nginx.conf
systemctl enable --now nginx
