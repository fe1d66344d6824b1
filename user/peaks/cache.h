/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was measured is kept in a small file, for its owner to read or to delete:
 *
 *	perfx-trace peaks 1
 *	kernels 1
 *	cpu Intel(R) Xeon(R) Processor
 *	threads 2
 *	host 0123456789abcdef0123456789abcdef
 *	measured 1790000000 quiet
 *	1 f64 112700000000
 *	1 bytes 15190000000
 *	2 f64 222500000000
 *
 * One that is another host's, another version's or damaged is as good as none.
 */
#ifndef PERFX_PEAKS_CACHE_H
#define PERFX_PEAKS_CACHE_H

#include "peaks/peaks.h"

/* Whose peaks: all of it must be equal. */
struct peaks_key {
	char *cpu;	  /* name */
	char *host;	  /* machine-id: outlives reboots */
	uint32_t threads; /* CPUs that may be used */
};

/* This host's: 0 or -errno. */
int peaks_key_read(struct peaks_key *key);
void peaks_key_clear(struct peaks_key *key);

/* The text of such a file (malloc'd); NULL: memory was out. */
char *peaks_format(const struct peaks *peaks, const struct peaks_key *key);
/* 0; -ESTALE of another host or version; -EINVAL damaged. */
int peaks_parse(const char *text, const struct peaks_key *key, struct peaks *peaks);

/* Where (malloc'd): /var/cache/perfx-trace/peaks for root, $XDG_CACHE_HOME/perfx-trace/peaks or
 * ~/.cache/perfx-trace/peaks for others. NULL: nowhere. */
char *peaks_path(void);
/* 0 or -errno; parse errors as above. */
int peaks_load(const char *path, const struct peaks_key *key, struct peaks *peaks);
/* Replaces the file as a whole, makes its folder: 0 or -errno. */
int peaks_store(const char *path, const struct peaks_key *key, const struct peaks *peaks);

/* What is kept of this host: 0 or -errno. */
int peaks_find(struct peaks *peaks);
/* Measures it and keeps that, beside which what was kept of a busy time counts where it is better:
 * 0 or -errno. path: where it is kept (malloc'd); NULL when it could not be kept. */
int peaks_renew(struct peaks *peaks, char **path);

/* Measured beside others' work, an hour or longer ago: worth another try. */
bool peaks_is_doubtful(const struct peaks *peaks, uint64_t now_unix);

#endif
