/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process maps: /proc/PID/maps as a list, and the distinct files behind its executable
 * mappings ("modules"). A module is identified by (device, inode) as in the kernel's maps line, so
 * that one file reached by two paths counts once and a replaced file is not mistaken for its
 * successor.
 */
#ifndef PERFX_PROC_MAPS_H
#define PERFX_PROC_MAPS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping {
	uint64_t start, end;  /* addresses in the process, [start, end) */
	uint64_t file_offset; /* of start, in bytes */
	uint64_t inode;	      /* 0: no file */
	uint32_t dev_major, dev_minor;
	bool readable, writable, executable;
	bool shared;	  /* writes are seen by other processes that map it */
	bool deleted;	  /* the file has been unlinked or replaced since */
	const char *path; /* as the process sees it, unescaped, " (deleted)" taken off; "" for
			     anonymous; "[vdso]", … */
};

struct maps;

/* NULL with errno set: ESRCH no such process, EACCES/EPERM not allowed. A kernel thread has no
 * mappings: an empty list. */
struct maps *maps__read(pid_t pid);
/* Only the mapping that contains an address and, below it without a gap, those of the file to whose
 * data it belongs: microseconds, where all of a process with PyTorch take 1 to 2 ms. Kernels before
 * Linux 6.11 cannot be asked for them: all. */
struct maps *maps__read_around(pid_t pid, uint64_t address);
/* The same from the text of such a file. EINVAL: a malformed line. */
struct maps *maps__parse(const char *text, size_t size);
void maps__free(struct maps *maps);
size_t maps__count(const struct maps *maps);
const struct mapping *maps__at(const struct maps *maps, size_t index);
/* The mapping that contains an address, or NULL. */
const struct mapping *maps__find(const struct maps *maps, uint64_t address);

/* Has it a file that module_open() opens? The kernel's vDSO counts as one. */
bool mapping_has_file(const struct mapping *mapping);
/* Removes the kernel's " (deleted)" from the path of a file. False: it had no such ending. */
bool maps_cut_deleted(char *path);

/* A distinct file with at least one executable mapping. */
struct module_ref {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	bool deleted;
	uint64_t map_start, map_end; /* its first executable mapping: names it in map_files */
	const char *path;	     /* borrowed from maps */
	const char *base;	     /* last component of path */
};

/* Borrows the mapping's path. */
struct module_ref module_of(const struct mapping *mapping);
/* The modules in order of first appearance: executable first in practice. Returns the count;
 * *out is an array to be freed with free(), its strings live as long as maps. -errno. */
ssize_t maps__modules(const struct maps *maps, struct module_ref **out);

/* Opens the very file that is mapped, even when it was deleted, replaced or lies in another mount
 * namespace: /proc/PID/map_files/START-END, then /proc/PID/exe for the executable, then
 * /proc/PID/root/PATH where inode and device still agree (the device only where maps and stat mean
 * the same by it: not on btrfs and overlayfs, whose devices have major 0). Where a file system
 * refuses root (NFS with root_squash, FUSE), the process's own user opens it. Of the vDSO, which is
 * the same in all processes, a copy of our own is opened. The caller closes the descriptor. -errno;
 * -ESTALE: the path now names another file; -ENOENT, too, when it was deleted and we may not open
 * map_files. */
int module_open(pid_t pid, const struct module_ref *module);

/* The files of a process in the dynamic linker's order of lookup (executable, preloads, libraries
 * breadth first), from its list for debuggers (struct r_debug). For each file the address of its
 * dynamic section in the process. Returns the count, *out is malloc'd. -ENOENT: no list (static, or
 * the linker has not run yet); -ESRCH, -EACCES, -EPERM: the process may not be read. */
ssize_t link_map_read(pid_t pid, uint64_t **out);

/* Opens a regular file for reading. root is "" (ours) or a directory such as /proc/PID/root, which
 * absolute links and ".." cannot leave: paths of a process in a container mean something only under
 * its own root, with ours they would lead to files of the host. The descriptor, or -errno (-EINVAL:
 * no regular file). */
int rootfs_open(const char *root, const char *path);
/* The same of a directory, for the functions that end in "at" (O_PATH). */
int rootfs_directory(const char *root, const char *path);
/* Opens a directory for readdir(); NULL: it cannot be read. */
DIR *rootfs_opendir(const char *root, const char *path);

#endif
