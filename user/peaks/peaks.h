/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peaks of this host: floating-point operations a second by type, and bytes of memory a second,
 * with one thread and with one on each CPU that this process may use. See docs/peaks.md for what
 * the numbers mean.
 */
#ifndef PERFX_PEAKS_PEAKS_H
#define PERFX_PEAKS_PEAKS_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stdint.h>

enum peaks_who { PEAKS_ONE = 0, PEAKS_ALL = 1 };

struct peaks {
	uint32_t threads;	       /* of PEAKS_ALL */
	double flops[2][PERFX_DTYPES]; /* a second, by peaks_who and type; 0: not known */
	double bytes[2];	       /* a second, by peaks_who; 0: not known */
	/* The machine was busy: the bandwidth is what others left, and may be more. */
	bool busy;
	uint64_t measured_unix; /* seconds */
};

/* Takes about half a second; all CPUs are busy meanwhile. Needs no privilege. 0 or -errno; what
 * cannot be measured is not known. */
int peaks_measure(struct peaks *peaks);

/* Are the CPUs idle? Looks for a tenth of a second. Only an idle host is measured unasked. */
bool peaks_host_is_idle(void);

/* The better of each, for two measurements of the same host: whatever disturbs one lowers it. */
void peaks_merge(struct peaks *peaks, const struct peaks *other);

/* The types that are measured, 0 at the end. */
extern const enum perfx_dtype peaks_dtypes[];

/*
 * Measured peaks are kept in a small file, which its owner may read or delete:
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
 * A file of another host or version, or a damaged one, is as good as none.
 */

/* The host of the peaks: all of it must be equal. */
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

/* The kept peaks of this host: 0 or -errno. */
int peaks_find(struct peaks *peaks);
/* Measures and keeps the result; kept peaks of a busy time count where they are better. 0 or
 * -errno. path: the file (malloc'd); NULL when it could not be written. */
int peaks_renew(struct peaks *peaks, char **path);

/* Measured on a busy machine, an hour or longer ago: worth another try. */
bool peaks_is_doubtful(const struct peaks *peaks, uint64_t now_unix);

/*
 * Estimated peaks, from the CPU's own description: nothing is run, so a job beside it is not
 * disturbed. A guess, by a third or so: the clock under load and the number of vector units cannot
 * be found that way, of memory nothing can.
 */
struct cpu_units {
	double hz;
	uint32_t cores, threads; /* that may be used; threads share the units of a core */
	unsigned vector_bits;
	unsigned vectors_per_cycle;
	bool fma; /* a vector instruction multiplies and adds */
	/* Half-wide types: as many times f32's rate as they are narrower, or by AMX. */
	bool has_f16, has_bf16, amx_f16, amx_bf16;
};

/* This host's; hz 0: not known. */
void cpu_units_read(struct cpu_units *units);
/* Operations a second with one thread and with all; 0: not known. */
void peaks_of_units(const struct cpu_units *units, struct peaks *peaks);

/* 0, or -ENOENT: the CPU does not say enough. */
int peaks_estimate(struct peaks *peaks);

/* Peaks that the user gives: --peak-flops, --peak-bandwidth, --no-peaks. */
struct peaks_given {
	uint64_t flops[PERFX_DTYPES]; /* a second, all CPUs together; 0: not given */
	uint64_t bytes;		      /* likewise */
	bool measure_nothing;
};

/* "1.2T", or by type "f32:1.2T,f64:600G". 0 or -EINVAL. */
int peaks_given_flops(struct peaks_given *given, const char *text);
/* "25G", "204.8GB/s". */
int peaks_given_bytes(struct peaks_given *given, const char *text);

bool peaks_given_any(const struct peaks_given *given);
/* Both kinds are given: nothing is left to be measured. */
bool peaks_given_all(const struct peaks_given *given);

#endif
