# SPDX-License-Identifier: Apache-2.0
# After a boot the original page is served from its place, with permissions no wider than a site needs.
. "$CHECKS/tap.sh"

name=index.nginx-debian.html
page=fb47468a2cd3953c7131431991afcc6a2703f14640520102eea0a685a7e8d6de

# A new file in the folder of the site must show up under its name.
served_from_its_place() {
	read -r token </proc/sys/kernel/random/uuid
	echo "$token" >"$MACHINE/var/www/html/$token.txt"
	chmod 0644 "$MACHINE/var/www/html/$token.txt"
	http localhost "/$token.txt" | grep -qx "$token"
}

within 300 booted >/dev/null || true
check site-answers within 10 http_ok localhost /
check page-unchanged http_page localhost / $page
check page-by-name http_page localhost /$name $page
check served-from-its-place served_from_its_place
check port-80-is-nginx port_belongs_to 80 /usr/sbin/nginx
check nginx-enabled machine systemctl is-enabled nginx
check worker-not-root nginx_workers_unprivileged
check none-world-writable none_world_writable /etc/nginx /var/www
finish
