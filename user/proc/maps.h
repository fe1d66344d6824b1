/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process maps: /proc/PID/maps as a list, and the distinct files behind its executable
 * mappings ("modules"). A module is identified by (device, inode) as the kernel's maps line says
 * them, so that one file reached by two paths counts once and a replaced file is not mistaken for
 * its successor.
 */
#ifndef PERFX_PROC_MAPS_H
#define PERFX_PROC_MAPS_H

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
	bool deleted;	  /* the file has been unlinked or replaced since */
	const char *path; /* as the process sees it, unescaped, " (deleted)" taken off; "" for
			     anonymous; "[vdso]", … */
};

struct maps;

/* NULL with errno set: ESRCH no such process, EACCES/EPERM not allowed. A kernel thread has no
 * mappings: an empty list. */
struct maps *maps__read(pid_t pid);
/* The same from the text of such a file. EINVAL: a line that is none. */
struct maps *maps__parse(const char *text, size_t size);
void maps__free(struct maps *maps);
size_t maps__count(const struct maps *maps);
const struct mapping *maps__at(const struct maps *maps, size_t index);
/* The mapping that contains an address, or NULL. */
const struct mapping *maps__find(const struct maps *maps, uint64_t address);

/* A distinct file with at least one executable mapping. */
struct module_ref {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	bool deleted;
	uint64_t map_start, map_end; /* its first executable mapping: names it in map_files */
	const char *path;	     /* borrowed from maps */
	const char *base;	     /* last component of path */
};

/* The modules in order of first appearance: executable first in practice. Returns the count;
 * *out is an array to be freed with free(), its strings live as long as maps. -errno. */
ssize_t maps__modules(const struct maps *maps, struct module_ref **out);

/* Opens the very file that is mapped, even when it was deleted, replaced or lies in another mount
 * namespace: /proc/PID/map_files/START-END, then /proc/PID/exe for the executable, then
 * /proc/PID/root/PATH where inode and device still agree (the device only where maps and stat mean
 * the same by it: not on btrfs and overlayfs, whose devices have major 0). The caller closes the
 * descriptor. -errno; -ESTALE: the path now names another file; -ENOENT, too, when it was deleted
 * and we may not open map_files. */
int module_open(pid_t pid, const struct module_ref *module);

#endif
