# SPDX-License-Identifier: Apache-2.0
# caught by: live/default-site boot/default-site
# Enable the unit, but leave the slip.

systemctl enable nginx
