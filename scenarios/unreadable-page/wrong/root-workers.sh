# SPDX-License-Identifier: Apache-2.0
# caught by: live/worker-not-root boot/worker-not-root
# Permission bits don't stop root, so let the workers be root.

sed -i 's/^user .*/user root;/' /etc/nginx/nginx.conf
systemctl restart nginx
