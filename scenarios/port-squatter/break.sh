# SPDX-License-Identifier: Apache-2.0
# An application of an old deployment comes back to life and takes port 80 before nginx gets it.

app=/opt/staff-portal
units=/etc/systemd/system

install -d -m 0755 "$app"
install -m 0755 "$FILES/portal.pl" "$app/portal.pl"
install -m 0644 "$FILES/index.html" "$app/index.html"
install -m 0644 "$FILES/staff-portal.service" "$units/staff-portal.service"

systemctl stop nginx
systemctl daemon-reload
systemctl -q enable --now staff-portal
touch -h -r /etc/nginx/nginx.conf "$app"/* "$app" /opt "$units"/staff-portal.service \
	"$units"/multi-user.target.wants/staff-portal.service "$units"/multi-user.target.wants "$units"

! systemctl start nginx
