# SPDX-License-Identifier: Apache-2.0
# After a boot every site shows its own pages.
. "$CHECKS/tap.sh"

default=fb47468a2cd3953c7131431991afcc6a2703f14640520102eea0a685a7e8d6de
shop=b7649b75be277755835f60b9f46e08bd97090952de657d988abf91852bc47224
docs=8a9e7a8e7e03f312f653628542d2a8e05d0e1378fa1232751719b85972254ab9
backup=a22f08655690260de325c7f76b87101d7efbbe25be383b065add33ba0e96702d
status=a36680dea08a9f4057d782451ad945aa8a65d527f21df3fec7ee0ca94fca0071
healthy=63745aef95742025c6d7a1b4fc0e7107e6f3c3eb2e0cb290f33c46f176e6740d

within 300 booted >/dev/null || true
check default-site within 10 http_page localhost / $default
check shop-site http_page shop.local / $shop
check docs-site http_page docs.local / $docs
check docs-chapter http_page docs.local /backup.html $backup
check status-site http_page status.local / $status
check status-health http_page status.local /health $healthy
check port-80-is-nginx port_belongs_to 80 /usr/sbin/nginx
check nginx-enabled machine systemctl is-enabled nginx
check worker-not-root nginx_workers_unprivileged
check none-world-writable none_world_writable /etc/nginx /var/www
finish
