// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/peaks.h"

#include "base/cache.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "decode/names.h"
#include "peaks/internal.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const enum perfx_dtype peaks_dtypes[] = {PERFX_DTYPE_F64, PERFX_DTYPE_F32, PERFX_DTYPE_F16,
					 PERFX_DTYPE_BF16, 0};

/* This share of the machine's CPU time: more is another's work, not the noise of a quiet one. */
#define BUSY_SHARE 0.05

/* A product of half-wide numbers by their own instructions, or in f32 once they are widened. */
static void bound_half(struct peaks *peaks, enum perfx_dtype dtype)
{
	for (int who = PEAKS_ONE; who <= PEAKS_ALL; who++) {
		double *flops = peaks->flops[who];

		if (!fma_half_is_known(dtype))
			flops[dtype] = 0;
		else if (flops[dtype] < flops[PERFX_DTYPE_F32])
			flops[dtype] = flops[PERFX_DTYPE_F32];
	}
}

static bool measure_bytes(struct peaks *peaks, struct bench_threads *bench_threads)
{
	bool clean = true;

	if (bench_threads__allocate(bench_threads))
		return true;
	for (int who = PEAKS_ONE; who <= PEAKS_ALL; who++) {
		struct bench_rate rate = bench_threads__bandwidth(bench_threads, who == PEAKS_ALL);

		peaks->bytes[who] = rate.per_s;
		clean = clean && rate.clean;
	}
	return clean;
}

static void raise_to(double *rate, double least)
{
	*rate = *rate < least ? least : *rate;
}

static bool others_worked(uint64_t all_ns, uint64_t own_ns, uint64_t elapsed_ns)
{
	double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);

	return (double)all_ns - (double)own_ns > BUSY_SHARE * cpus * (double)elapsed_ns;
}

int peaks_measure(struct peaks *peaks)
{
	uint64_t start_ns = clock_monotonic_ns(), busy_ns = host_cpu_read().busy_ns;
	uint64_t own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct bench_threads *bench_threads = bench_threads__new();
	bool clean;

	*peaks = (struct peaks){.measured_unix = clock_ns(CLOCK_REALTIME) / 1000000000u};
	if (!bench_threads)
		return -errno;
	peaks->threads = (uint32_t)bench_threads__size(bench_threads);
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		const struct fma_kernel *kernel = fma_kernel_for(peaks_dtypes[i]);

		for (int who = PEAKS_ONE; kernel && who <= PEAKS_ALL; who++)
			peaks->flops[who][peaks_dtypes[i]] =
				bench_threads__flops(bench_threads, kernel, who == PEAKS_ALL).per_s;
	}
	clean = measure_bytes(peaks, bench_threads);
	bench_threads__free(bench_threads);
	bound_half(peaks, PERFX_DTYPE_F16);
	bound_half(peaks, PERFX_DTYPE_BF16);
	/* more threads can do no less than one: where they did, they were disturbed */
	for (size_t i = 0; peaks_dtypes[i]; i++)
		raise_to(&peaks->flops[PEAKS_ALL][peaks_dtypes[i]],
			 peaks->flops[PEAKS_ONE][peaks_dtypes[i]]);
	raise_to(&peaks->bytes[PEAKS_ALL], peaks->bytes[PEAKS_ONE]);

	peaks->busy = !clean || others_worked(host_cpu_read().busy_ns - busy_ns,
					      clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own_ns,
					      clock_monotonic_ns() - start_ns);
	return 0;
}

#define LOOK_NS 100000000

bool peaks_host_is_idle(void)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};
	uint64_t start_ns = clock_monotonic_ns(), busy_ns = host_cpu_read().busy_ns;

	nanosleep(&look, NULL);
	return busy_ns && !others_worked(host_cpu_read().busy_ns - busy_ns, 0,
					 clock_monotonic_ns() - start_ns);
}

void peaks_merge(struct peaks *peaks, const struct peaks *other)
{
	for (int who = PEAKS_ONE; who <= PEAKS_ALL; who++) {
		for (int dtype = 0; dtype < PERFX_DTYPES; dtype++)
			raise_to(&peaks->flops[who][dtype], other->flops[who][dtype]);
		raise_to(&peaks->bytes[who], other->bytes[who]);
	}
	peaks->busy = peaks->busy && other->busy;
	if (other->measured_unix > peaks->measured_unix)
		peaks->measured_unix = other->measured_unix;
}

#define FILE_MAX  4096
#define MODEL_MAX (64u << 10) /* of /proc/cpuinfo: the first CPU's entry is in it */

/* Beyond any host so far (an exaflop is 1e18): such a number is damage. */
#define RATE_MAX 1e18

#define BUSY_AGE_S 3600

/* Up to size - 1 bytes of a file, without following a link. */
static int read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	size_t used = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

int peaks_key_read(struct peaks_key *key)
{
	char *cpuinfo = malloc(MODEL_MAX), id[128] = "";
	int *cpus = NULL;
	ssize_t count = host_cpus(&cpus);

	*key = (struct peaks_key){.threads = count > 0 ? (uint32_t)count : 0};
	free(cpus);
	if (cpuinfo && !read_file("/proc/cpuinfo", cpuinfo, MODEL_MAX))
		key->cpu = host_cpu_name(cpuinfo);
	free(cpuinfo);
	if (read_file("/etc/machine-id", id, sizeof(id)))
		id[0] = '\0';
	id[strcspn(id, " \t\n")] = '\0';
	key->host = strdup(id);
	if (key->cpu && key->host && key->threads)
		return 0;
	peaks_key_clear(key);
	return count < 0 ? (int)count : -ENOMEM;
}

void peaks_key_clear(struct peaks_key *key)
{
	free(key->cpu);
	free(key->host);
	*key = (struct peaks_key){0};
}

static void format_head(struct text *text, const struct peaks_key *key)
{
	text_printf(text, "perfx-trace peaks 1\nkernels %d\ncpu %s\nthreads %" PRIu32 "\nhost %s\n",
		    PEAKS_KERNELS_VERSION, key->cpu, key->threads, key->host);
}

char *peaks_format(const struct peaks *peaks, const struct peaks_key *key)
{
	struct text text = {0};

	format_head(&text, key);
	text_printf(&text, "measured %" PRIu64 " %s\n", peaks->measured_unix,
		    peaks->busy ? "busy" : "quiet");
	for (int who = peaks->threads == 1 ? PEAKS_ALL : PEAKS_ONE; who <= PEAKS_ALL; who++) {
		uint32_t threads = who == PEAKS_ONE ? 1 : peaks->threads;

		for (size_t i = 0; peaks_dtypes[i]; i++)
			if (peaks->flops[who][peaks_dtypes[i]] > 0)
				text_printf(&text, "%" PRIu32 " %s %.0f\n", threads,
					    name_of_dtype(peaks_dtypes[i]),
					    peaks->flops[who][peaks_dtypes[i]]);
		if (peaks->bytes[who] > 0)
			text_printf(&text, "%" PRIu32 " bytes %.0f\n", threads, peaks->bytes[who]);
	}
	return text_take(&text);
}

/* Where a rate of this name belongs; NULL: no such. */
static double *rate_of(struct peaks *peaks, enum peaks_who who, const char *name)
{
	if (!strcmp(name, "bytes"))
		return &peaks->bytes[who];
	for (size_t i = 0; peaks_dtypes[i]; i++)
		if (!strcmp(name, name_of_dtype(peaks_dtypes[i])))
			return &peaks->flops[who][peaks_dtypes[i]];
	return NULL;
}

/* "2 f64 222500000000" */
static int parse_rate_line(const char *line, struct peaks *peaks)
{
	char name[16];
	double *place, rate;
	uint32_t threads;
	int used = 0;

	if (sscanf(line, "%" SCNu32 " %15s %lf%n", &threads, name, &rate, &used) != 3 ||
	    line[used] || !(rate >= 1 && rate <= RATE_MAX))
		return -EINVAL;
	if (threads != 1 && threads != peaks->threads)
		return -EINVAL;
	place = rate_of(peaks, threads == 1 ? PEAKS_ONE : PEAKS_ALL, name);
	if (!place || *place != 0)
		return -EINVAL;
	*place = rate;
	if (peaks->threads == 1)
		*rate_of(peaks, PEAKS_ALL, name) = rate;
	return 0;
}

static int parse_lines(char *rest, struct peaks *peaks)
{
	char *line = strsep(&rest, "\n"), how[8];
	int used = 0, err = 0;

	if (!line ||
	    sscanf(line, "measured %" SCNu64 " %7s%n", &peaks->measured_unix, how, &used) != 2 ||
	    line[used])
		return -EINVAL;
	peaks->busy = !strcmp(how, "busy");
	if (!peaks->busy && strcmp(how, "quiet"))
		return -EINVAL;
	while (!err && (line = strsep(&rest, "\n")) && *line)
		err = parse_rate_line(line, peaks);
	/* without its end, or with more behind it */
	if (!err && (!line || (rest && *rest)))
		err = -EINVAL;
	return err;
}

int peaks_parse(const char *text, const struct peaks_key *key, struct peaks *peaks)
{
	struct text head = {0};
	char *copy;
	int err;

	*peaks = (struct peaks){.threads = key->threads};
	format_head(&head, key);
	if (head.failed || strncmp(text, text_peek(&head), head.length)) {
		text_clear(&head);
		return -ESTALE;
	}
	copy = strdup(text + head.length);
	text_clear(&head);
	err = copy ? parse_lines(copy, peaks) : -ENOMEM;
	free(copy);
	if (!err && peaks->flops[PEAKS_ALL][PERFX_DTYPE_F32] == 0 && peaks->bytes[PEAKS_ALL] == 0)
		err = -EINVAL;
	return err;
}

char *peaks_path(void)
{
	return cache_path("peaks");
}

int peaks_load(const char *path, const struct peaks_key *key, struct peaks *peaks)
{
	char text[FILE_MAX];
	int err = read_file(path, text, sizeof(text));

	return err ? err : peaks_parse(text, key, peaks);
}

int peaks_store(const char *path, const struct peaks_key *key, const struct peaks *peaks)
{
	char *text = peaks_format(peaks, key);
	int err = text ? cache_store(path, text, strlen(text)) : -ENOMEM;

	free(text);
	return err;
}

bool peaks_is_doubtful(const struct peaks *peaks, uint64_t now_unix)
{
	/* a clock that was set back makes it doubtful, too */
	return peaks->busy && now_unix - peaks->measured_unix > BUSY_AGE_S;
}

static int find_at(const char *path, const struct peaks_key *key, struct peaks *peaks)
{
	return path ? peaks_load(path, key, peaks) : -ENOENT;
}

int peaks_find(struct peaks *peaks)
{
	struct peaks_key key;
	char *path = peaks_path();
	int err = peaks_key_read(&key);

	if (!err)
		err = find_at(path, &key, peaks);
	peaks_key_clear(&key);
	free(path);
	return err;
}

int peaks_renew(struct peaks *peaks, char **kept_at)
{
	struct peaks_key key;
	struct peaks kept;
	char *path = peaks_path();
	int err = peaks_measure(peaks);
	bool is_kept = false;

	if (!err && !peaks_key_read(&key)) {
		if (peaks->busy && !find_at(path, &key, &kept))
			peaks_merge(peaks, &kept);
		is_kept = path && !peaks_store(path, &key, peaks);
		peaks_key_clear(&key);
	}
	if (kept_at)
		*kept_at = is_kept ? path : NULL;
	if (!kept_at || !is_kept)
		free(path);
	return err;
}

/* Of one core: a tile's product is 16 × 16 × 32 multiply-adds of 16-bit numbers in 16 cycles (Intel
 * 64 and IA-32 Architectures Optimization Reference Manual, chapter 20). */
#define AMX_FLOPS_PER_CYCLE 1024

#if defined(__x86_64__)

#include <cpuid.h>

/* AMD's Zen 4 (family 0x19) takes two cycles for 512 bits. */
static bool halves_512(void)
{
	unsigned a = 0, b, c, d;

	if (!__builtin_cpu_is("amd") || !__get_cpuid(1, &a, &b, &c, &d))
		return false;
	return (a >> 8 & 0xf) + (a >> 20 & 0xff) == 0x19;
}

static void read_vectors(struct cpu_units *units)
{
	units->fma = __builtin_cpu_supports("fma");
	units->vectors_per_cycle = 2;
	if (__builtin_cpu_supports("avx512f"))
		units->vector_bits = halves_512() ? 256 : 512;
	else
		units->vector_bits = __builtin_cpu_supports("avx") ? 256 : 128;
}

#elif defined(__aarch64__)

static void read_vectors(struct cpu_units *units)
{
	units->fma = true;
	units->vectors_per_cycle = 2;
	units->vector_bits = 128;
}

#else

static void read_vectors(struct cpu_units *units)
{
	(void)units;
}

#endif

void cpu_units_read(struct cpu_units *units)
{
	int *cpus = NULL;
	ssize_t count = host_cpus(&cpus);

	*units = (struct cpu_units){.hz = host_hz()};
	if (count > 0) {
		units->threads = (uint32_t)count;
		units->cores = host_cores(cpus, (size_t)count);
	}
	free(cpus);
	read_vectors(units);
	units->has_f16 = fma_kernel_for(PERFX_DTYPE_F16);
	units->has_bf16 = fma_kernel_for(PERFX_DTYPE_BF16);
	units->amx_f16 = fma_has_amx(PERFX_DTYPE_F16);
	units->amx_bf16 = fma_has_amx(PERFX_DTYPE_BF16);
}

/* FLOPs of one core in a cycle. */
static double per_cycle(const struct cpu_units *units, enum perfx_dtype dtype)
{
	double operations = units->vectors_per_cycle * (units->fma ? 2.0 : 1.0);
	double f32 = operations * units->vector_bits / 32;

	switch (dtype) {
	case PERFX_DTYPE_F64:
		return f32 / 2;
	case PERFX_DTYPE_F32:
		return f32;
	case PERFX_DTYPE_F16:
		return units->amx_f16 ? AMX_FLOPS_PER_CYCLE : units->has_f16 ? 2 * f32 : f32;
	case PERFX_DTYPE_BF16:
		return units->amx_bf16 ? AMX_FLOPS_PER_CYCLE : units->has_bf16 ? 2 * f32 : f32;
	default:
		return 0;
	}
}

void peaks_of_units(const struct cpu_units *units, struct peaks *peaks)
{
	*peaks = (struct peaks){.threads = units->threads};
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		double core = units->hz * per_cycle(units, peaks_dtypes[i]);

		peaks->flops[PEAKS_ONE][peaks_dtypes[i]] = core;
		peaks->flops[PEAKS_ALL][peaks_dtypes[i]] = core * units->cores;
	}
}

int peaks_estimate(struct peaks *peaks)
{
	struct cpu_units units;

	cpu_units_read(&units);
	peaks_of_units(&units, peaks);
	return peaks->flops[PEAKS_ALL][PERFX_DTYPE_F32] > 0 ? 0 : -ENOENT;
}

/* A number outside is a slip: a unit that was forgotten. */
#define RATE_MIN  1000000ull
#define GIVEN_MAX 1000000000000000000ull

static int parse_peak(const char *text, uint64_t *rate)
{
	if (parse_rate(text, rate) || *rate < RATE_MIN || *rate > GIVEN_MAX)
		return -EINVAL;
	return 0;
}

static enum perfx_dtype dtype_named(const char *name, size_t length)
{
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		const char *known = name_of_dtype(peaks_dtypes[i]);

		if (strlen(known) == length && !strncmp(name, known, length))
			return peaks_dtypes[i];
	}
	return PERFX_DTYPE_UNKNOWN;
}

static int parse_given(struct peaks_given *given, const char *item)
{
	const char *colon = strchr(item, ':');
	enum perfx_dtype dtype = colon ? dtype_named(item, (size_t)(colon - item)) : 0;
	uint64_t rate;

	if (parse_peak(colon ? colon + 1 : item, &rate) || (colon && !dtype))
		return -EINVAL;
	for (size_t i = 0; peaks_dtypes[i]; i++)
		if (!colon || peaks_dtypes[i] == dtype)
			given->flops[peaks_dtypes[i]] = rate;
	return 0;
}

int peaks_given_flops(struct peaks_given *given, const char *text)
{
	char *copy = strdup(text), *rest = copy, *item;
	int err = copy ? 0 : -ENOMEM;

	while (!err && (item = strsep(&rest, ",")))
		err = parse_given(given, item);
	free(copy);
	return err;
}

int peaks_given_bytes(struct peaks_given *given, const char *text)
{
	return parse_peak(text, &given->bytes);
}

static bool any_flops(const struct peaks_given *given)
{
	for (size_t i = 0; peaks_dtypes[i]; i++)
		if (given->flops[peaks_dtypes[i]])
			return true;
	return false;
}

bool peaks_given_any(const struct peaks_given *given)
{
	return given->bytes || any_flops(given);
}

bool peaks_given_all(const struct peaks_given *given)
{
	return given->bytes && any_flops(given);
}
