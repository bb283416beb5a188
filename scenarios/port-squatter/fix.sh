# SPDX-License-Identifier: Apache-2.0
# Retire the old application, give the port back to nginx.

systemctl disable --now staff-portal
systemctl start nginx
