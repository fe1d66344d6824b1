/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of addresses of data, such as locks, in other processes. */
#ifndef PERFX_PROC_ADDRESS_NAME_H
#define PERFX_PROC_ADDRESS_NAME_H

#include "proc/maps.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * The mappings around a process's locks, to name the file that a lock lies in. Linux before 6.11
 * reads all mappings for it, which takes a millisecond or two, and programs make new locks all the
 * time (Python makes one for each wait of a queue). So the mappings are kept until a lock lies in
 * none of them, or they are old: a library may have replaced other memory. Where two processes
 * share an entry, the last one has it. All zero at first.
 */
#define KEPT_MAPS	 32
#define KEPT_MAPS_AGE_NS 5000000000u

struct address_names {
	struct kept_maps {
		pid_t pid;
		struct maps *maps; /* NULL: not read, or it could not be */
		uint64_t read_ns;
	} kept[KEPT_MAPS];
};

/* "libfoo.so+0x4040", "0x55d0c8a012a0 (heap)", "0x7f81c2e40000 (shared memory)". The caller's to
 * free. NULL: memory is out. */
char *address_name(struct address_names *names, pid_t pid, uint64_t address);
/* The mapping that contains an address; NULL: none. Borrowed until the next call. */
const struct mapping *address_mapping(struct address_names *names, pid_t pid, uint64_t address);
void address_names__clear(struct address_names *names);

#endif
