# SPDX-License-Identifier: Apache-2.0
# Three more sites, a semicolon missing in one of them, and a unit that nobody enabled again.

for site in shop docs status; do
	install -d -m 0755 "/var/www/$site"
	install -m 0644 "$FILES/$site"/* "/var/www/$site"
	install -m 0644 "$FILES/$site.conf" "/etc/nginx/sites-available/$site"
	ln -s "/etc/nginx/sites-available/$site" "/etc/nginx/sites-enabled/$site"
	touch -h -r /etc/nginx/nginx.conf "/var/www/$site"/* "/var/www/$site" \
		"/etc/nginx/sites-available/$site" "/etc/nginx/sites-enabled/$site"
done

systemctl -q disable --now nginx
touch -r /etc/nginx/nginx.conf /var/www /etc/nginx/sites-available /etc/nginx/sites-enabled \
	/etc/systemd/system/multi-user.target.wants /etc/rc[2-5].d

! systemctl start nginx
