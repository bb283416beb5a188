/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as other users. */
#include "peer.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct peer p;
static struct outcome o;
static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };

static void as_user(const char *user, const char *script, const char *dir)
{
	static struct msg_exec m;
	const char *const argv[] = { "sh", "-c", script, NULL };

	m = (struct msg_exec){ .user = bytes_str(user), .dir = bytes_str(dir) };
	peer_request(&p, 1, &m, argv, env);
}

static void check_as(const char *user, const char *script, const char *out)
{
	as_user(user, script, "");
	peer_expect_started(&p, 1);
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], out);
	CHECK_INT(o.exit.value, 0);
}

static void set_up(void)
{
	if (geteuid() != 0)
		SKIP("only root becomes somebody else");
	peer_open(&p);
}

TEST(by_name_and_by_number)
{
	const struct passwd *nobody = getpwnam("nobody");
	char want[64];

	set_up();
	CHECK(nobody);
	(void)snprintf(want, sizeof(want), "%u %u %u %u\n", nobody->pw_uid, nobody->pw_gid,
		nobody->pw_uid, nobody->pw_gid);
	check_as("nobody", "echo $(id -u) $(id -g) $(id -ru) $(id -rg)", want);
	(void)snprintf(want, sizeof(want), "%u", nobody->pw_uid);
	check_as(want, "id -un", "nobody\n");
	check_as("root", "id -u", "0\n");
	check_as("0", "id -u", "0\n");
	check_as("", "id -u", "0\n");
	peer_stop(&p);
}

/* As everybody else sees them, for each user there is. */
TEST(supplementary_groups)
{
	const struct passwd *user;
	char want[512];

	set_up();
	setpwent();
	while ((user = getpwent())) {
		gid_t groups[64];
		int n = 64;
		size_t len = 0;

		if (strlen(user->pw_name) > USER_LENGTH)
			continue;
		CHECK(getgrouplist(user->pw_name, user->pw_gid, groups, &n) > 0);
		for (int i = 0; i < n; i++)
			len += (size_t)snprintf(
				want + len, sizeof(want) - len, "%s%u", i ? " " : "", groups[i]);
		(void)snprintf(want + len, sizeof(want) - len, "\n");
		check_as(user->pw_name, "id -G", want);
	}
	endpwent();
	peer_stop(&p);
}

TEST(no_such_user)
{
	static const char *const names[] = { "no-such-user", "4294967295", "99999999999999999999",
		"4000000123", "root:x", "nobod", "-1", "0x0", "0 " };

	set_up();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		as_user(names[i], "id", "");
		peer_expect_failed(&p, 1, FAIL_USER);
	}
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(nothing_of_root_remains)
{
	set_up();
	check_as("nobody", "grep -E '^Cap(Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u",
		"0000000000000000\n");
	check_as("nobody", "test -r /etc/shadow || echo no", "no\n");
	as_user("nobody", "true", "/root");
	if (peer_next(&p).type == MSG_STARTED)
		peer_collect(&p, 1, &o); /* a /root that is open to all */
	peer_stop(&p);
}
