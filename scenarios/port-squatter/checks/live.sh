# SPDX-License-Identifier: Apache-2.0
# nginx, and nobody else, serves the original site on port 80.
. "$CHECKS/tap.sh"

page=fb47468a2cd3953c7131431991afcc6a2703f14640520102eea0a685a7e8d6de

check site-answers within 10 http_ok localhost /
check page-unchanged http_page localhost / $page
check port-80-is-nginx port_belongs_to 80 /usr/sbin/nginx
check worker-not-root nginx_workers_unprivileged
check none-world-writable none_world_writable /etc/nginx /var/www
finish
