// SPDX-License-Identifier: BSD-2-Clause
#include "proc/mounts.h"

#include "base/text.h"
#include "proc/process.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Spaces and the like are written as \040. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] && text[2] && text[3]) {
			*to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + text[3] - '0');
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

bool mount_read(const char **text, struct mount *mount)
{
	while (**text) {
		const char *line = *text, *dash = strstr(line, " - ");

		*text = next_line(line);
		mount->options[0] = '\0';
		if (!dash || dash > *text ||
		    sscanf(line, "%*d %*d %u:%u %4095s %4095s", &mount->dev_major,
			   &mount->dev_minor, mount->root, mount->point) != 4 ||
		    sscanf(dash, " - %63s %*s %511s", mount->type, mount->options) < 1)
			continue;
		unescape(mount->root);
		unescape(mount->point);
		return true;
	}
	return false;
}

const char *mounts_of(struct mounts_text *mounts, pid_t pid)
{
	if (mounts->text && mounts->pid == pid)
		return mounts->text;
	mounts_forget(mounts);
	mounts->pid = pid;
	if (proc_read_pid(pid, "mountinfo", &mounts->text, 0) < 0 &&
	    proc_read("/proc/self/mountinfo", &mounts->text, 0) < 0)
		mounts->text = NULL;
	return mounts->text ?: "";
}

void mounts_forget(struct mounts_text *mounts)
{
	free(mounts->text);
	mounts->text = NULL;
}

/* The part of a path below a folder; NULL: it is not in the folder. */
static const char *part_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	if (!strcmp(folder, "/"))
		return path;
	if (strncmp(path, folder, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	return path + length;
}

bool mount_find(const char *text, uint32_t device, const char *path, struct mount *mount,
		const char **below)
{
	struct mount next;

	*below = NULL;
	while (mount_read(&text, &next)) {
		const char *part = part_below(path, next.root);

		/* of equal mounts the last one hides those before it */
		if (!mount_is_of(&next, device) || !part || (*below && part > *below))
			continue;
		*below = part;
		*mount = next;
	}
	return *below;
}
