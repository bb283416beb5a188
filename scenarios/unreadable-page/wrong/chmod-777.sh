# SPDX-License-Identifier: Apache-2.0
# caught by: live/none-world-writable boot/none-world-writable
# Open everything to everybody.

chmod -R 777 /var/www
