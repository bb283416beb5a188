# SPDX-License-Identifier: Apache-2.0
# Write the broken site anew: shorter, with the same effect.

cat >/etc/nginx/sites-available/docs <<'END'
server { listen 80; listen [::]:80; server_name docs.local; root /var/www/docs; }
END
nginx -t
systemctl enable nginx
systemctl start nginx
