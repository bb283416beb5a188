# SPDX-License-Identifier: Apache-2.0
# A readable copy takes the place of the page.

page=/var/www/html/index.nginx-debian.html
cat "$page" >"$page.new"
mv -f "$page.new" "$page"
