# SPDX-License-Identifier: Apache-2.0
# caught by: live/site-answers live/port-80-is-nginx
# Free the port for good, but leave nginx failed until the next boot.

systemctl disable --now staff-portal
