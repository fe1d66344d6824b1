/* SPDX-License-Identifier: BSD-2-Clause */
/* Mounted file systems: proc(5), /proc/PID/mountinfo. */
#ifndef PERFX_PROC_MOUNTS_H
#define PERFX_PROC_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mount {
	unsigned dev_major, dev_minor;
	char root[4096];  /* the folder of the file system that is mounted */
	char point[4096]; /* where */
	char type[64];	  /* "nfs4" */
	char options[512];
};

/* Is it the file system of this dev_t, as the kernel has it (linux/kdev_t.h: 12 bits of major
 * number, 20 of minor number)? */
static inline bool mount_is_of(const struct mount *mount, uint32_t device)
{
	return mount->dev_major == device >> 20 && mount->dev_minor == (device & 0xfffff);
}

/* Reads the mount of the line at *text, and moves *text to the next line. Lines that are none are
 * skipped. False: the text has ended. */
bool mount_read(const char **text, struct mount *mount);

/* The text of a process's mountinfo, of the last one that was asked for. All-zero: none. */
struct mounts_text {
	pid_t pid;
	char *text;
};

/* If the process has ended, that of the own process; "": neither can be read. */
const char *mounts_of(struct mounts_text *mounts, pid_t pid);
void mounts_forget(struct mounts_text *mounts);

/* Finds where a process sees a path of a file system: in the text of its mountinfo, the mount with
 * the longest root that contains the path. *below: the rest of the path, which follows
 * mount->point. False: it is not mounted there. */
bool mount_find(const char *text, uint32_t device, const char *path, struct mount *mount,
		const char **below);

#endif
