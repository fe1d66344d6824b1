// SPDX-License-Identifier: BSD-2-Clause
/*
 *	/sys/class/powercap/intel-rapl:0/name                  package-0
 *	                                 energy_uj             262143328850, root's to read
 *	                                 max_energy_range_uj   where that begins at 0 again
 *	/sys/class/powercap/intel-rapl:0:1/…                   dram, a part of its own
 *
 * The same counters by other ways (intel-rapl-mmio:0) are left out.
 */

#include "base/clock.h"
#include "base/grow.h"
#include "proc/process.h"
#include "session/recording.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT   "/sys/class/powercap"
#define PREFIX "intel-rapl:"

struct domain {
	char path[300]; /* its folder */
	char name[32];
	uint64_t range_uj, last_uj;
	uint64_t wrapped_uj; /* in the times that it began at 0 again */
};

struct powercap {
	struct domain *domains;
	size_t domains_count, domains_capacity;
	struct pack_buffer buffer;
};

/* A file of a domain without its newline; "": not to be read. */
static void read_file(const char *folder, const char *file, char *text, size_t size)
{
	char path[400], *data = NULL;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (proc_read(path, &data, size) > 0)
		snprintf(text, size, "%.*s", (int)strcspn(data, "\n"), data);
	free(data);
}

/* UINT64_MAX: not to be read. */
static uint64_t read_number(const char *folder, const char *file)
{
	char text[32], *end;
	uint64_t number;

	read_file(folder, file, text, sizeof(text));
	number = strtoull(text, &end, 10);
	return end == text || *end ? UINT64_MAX : number;
}

/* Leaves out a domain that cannot be read, and those beyond the limit. */
static int add_domain(struct powercap *powercap, const char *root, const char *folder)
{
	struct domain domain = {0};

	snprintf(domain.path, sizeof(domain.path), "%s/%s", root, folder);
	domain.last_uj = read_number(domain.path, "energy_uj");
	domain.range_uj = read_number(domain.path, "max_energy_range_uj");
	read_file(domain.path, "name", domain.name, sizeof(domain.name));
	if (domain.last_uj == UINT64_MAX || powercap->domains_count == PERFX_ENERGY_DOMAINS_MAX)
		return 0;
	return LIST_ADD(powercap->domains, domain);
}

struct powercap *powercap__new(const char *root)
{
	struct powercap *powercap = calloc(1, sizeof(*powercap));
	struct dirent **folders = NULL;
	int count, err = 0;

	if (!powercap)
		return NULL;
	root = root ? root : ROOT;
	count = scandir(root, &folders, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		if (!err && !strncmp(folders[i]->d_name, PREFIX, strlen(PREFIX)))
			err = add_domain(powercap, root, folders[i]->d_name);
		free(folders[i]);
	}
	free(folders);
	if (!err)
		return powercap;
	powercap__free(powercap);
	return NULL;
}

void powercap__free(struct powercap *powercap)
{
	if (!powercap)
		return;
	free(powercap->domains);
	free(powercap);
}

size_t powercap__count(const struct powercap *powercap)
{
	return powercap->domains_count;
}

void powercap__sample(struct powercap *powercap, struct sink *sink)
{
	for (size_t i = 0; powercap && i < powercap->domains_count; i++) {
		struct domain *domain = &powercap->domains[i];
		struct perfx_host_energy record = {.domain = (uint32_t)i};
		uint64_t now_uj = read_number(domain->path, "energy_uj");

		if (now_uj != UINT64_MAX) {
			/* without a range it is not known how much was used before the counter
			 * began anew: that is left out */
			if (now_uj < domain->last_uj)
				domain->wrapped_uj +=
					domain->range_uj == UINT64_MAX ||
							domain->range_uj < domain->last_uj
						? domain->last_uj
						: domain->range_uj;
			domain->last_uj = now_uj;
		}
		record.time_ns = clock_monotonic_ns();
		record.energy_uj = domain->wrapped_uj + domain->last_uj;
		SINK_PACK(sink, &powercap->buffer, PERFX_KIND_HOST_ENERGY, record, domain->name);
	}
}

static int open_powercap(struct recording *recording)
{
	recording->powercap = powercap__new(NULL); /* a recording goes on without it */
	return 0;
}

static void sample(struct recording *recording, enum usage_sample what)
{
	(void)what;
	powercap__sample(recording->powercap, recording->sink);
}

VERB(close_powercap, powercap__free(recording->powercap))

const struct recording_part powercap_part = {
	.name = "energy", .open = open_powercap, .sample = sample, .close = close_powercap};
