/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening files of a target that may live in a container. Its paths, and the links in them, mean
 * something only under its own root; followed with ours they would lead to files of the host.
 */
#ifndef PERFX_PROC_ROOTFS_H
#define PERFX_PROC_ROOTFS_H

/* Opens a regular file for reading. root is "" (ours) or a directory such as /proc/PID/root, which
 * absolute links and ".." cannot leave. The descriptor, or -errno (-EINVAL: no regular file). */
int rootfs_open(const char *root, const char *path);

#endif
