/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of the profile (aggregate/profile.h): what a process reads from and writes to. */
#ifndef PERFX_AGGREGATE_PROFILE_FILES_H
#define PERFX_AGGREGATE_PROFILE_FILES_H

#include <stdbool.h>
#include <stdint.h>

/* Files of one folder with the same suffix, or a peer of sockets: the C library's calls, exact. */
struct profile_files {
	const char *name; /* "/data/train.bin", or with "*.jpg" at its end, "tcp 10.0.0.7:443" */
	const char *type; /* of the file system; "": of a socket, or unknown */
	bool is_socket;
	uint64_t ns; /* in all of these calls, of all threads */
	uint64_t opens_count, open_ns;
	uint64_t reads_count, read_bytes, read_ns;
	uint64_t sequential_count; /* reads that began where the one before ended */
	uint64_t stored_bytes;	   /* fetched from storage, with what was read ahead */
	uint64_t writes_count, write_bytes, write_ns;
	uint64_t answers_count, answer_ns; /* sockets: from a write to the first bytes */
	uint64_t errors_count;
};

#endif
