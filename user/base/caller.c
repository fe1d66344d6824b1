// SPDX-License-Identifier: BSD-2-Clause
#include "base/caller.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static bool number_from_environment(const char *name, unsigned *value)
{
	const char *text = getenv(name);
	char *end;
	unsigned long number;

	if (!text || !*text)
		return false;
	number = strtoul(text, &end, 10);
	*value = (unsigned)number;
	return !*end && number <= UINT32_MAX;
}

bool caller_ids(uid_t *uid, gid_t *gid)
{
	return number_from_environment("SUDO_UID", uid) && number_from_environment("SUDO_GID", gid);
}

int caller_become(uid_t uid, gid_t gid)
{
	struct passwd *user = getpwuid(uid);

	if (user ? initgroups(user->pw_name, gid) : setgroups(0, NULL))
		return -errno;
	if (setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return -errno;
	return 0;
}
