// SPDX-License-Identifier: BSD-2-Clause
#include "session/process_table.h"

#include "base/text.h"
#include "elf/image.h"
#include "proc/maps.h"
#include "proc/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Variables that launchers set. The first with both rank and size counts; those nearer to the
 * training come first. */
static const struct launcher {
	const char *rank, *world_size, *local_rank;
	const char *job[2]; /* joined by a colon */
} launchers[] = {
	{"RANK", "WORLD_SIZE", "LOCAL_RANK", {"MASTER_ADDR", "MASTER_PORT"}},
	{"OMPI_COMM_WORLD_RANK",
	 "OMPI_COMM_WORLD_SIZE",
	 "OMPI_COMM_WORLD_LOCAL_RANK",
	 {"PMIX_NAMESPACE", NULL}},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", {"PMI_JOBID", NULL}},
	{"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", NULL, {"JAX_COORDINATOR_ADDRESS", NULL}},
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

static const char *value_of(const char *environment, size_t bytes, const char *name)
{
	return name ? environment_value(environment, bytes, name) : NULL;
}

static bool number_of(const char *environment, size_t bytes, const char *name, uint32_t *number)
{
	const char *value = value_of(environment, bytes, name);
	char *end;
	unsigned long found;

	if (!value || *value < '0' || *value > '9')
		return false;
	errno = 0;
	found = strtoul(value, &end, 10);
	*number = (uint32_t)found;
	return !errno && !*end && found < UINT32_MAX;
}

bool rank_of_environment(const char *environment, size_t bytes, struct rank *rank)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const struct launcher *launcher = &launchers[i];
		const char *job = value_of(environment, bytes, launcher->job[0]);
		const char *detail = value_of(environment, bytes, launcher->job[1]);

		*rank = (struct rank){.source = launcher->rank};
		if (!number_of(environment, bytes, launcher->rank, &rank->rank) ||
		    !number_of(environment, bytes, launcher->world_size, &rank->world_size) ||
		    rank->rank >= rank->world_size)
			continue;
		if (!number_of(environment, bytes, launcher->local_rank, &rank->local_rank))
			rank->local_rank = UINT32_MAX;
		if (job)
			snprintf(rank->job, sizeof(rank->job), "%.100s%s%.20s", job,
				 detail ? ":" : "", detail ? detail : "");
		return true;
	}
	return false;
}

#define VARIABLES_MAX  1024
#define VARIABLE_BYTES 128 /* with its name: none of these is longer */

static void add_variable(pid_t pid, uint64_t address, struct text *environment)
{
	char variable[VARIABLE_BYTES + 1] = "";
	const uint64_t page = 4096;
	size_t bytes = VARIABLE_BYTES;

	/* the page behind it need not be mapped */
	if (process_read(pid, address, variable, bytes)) {
		bytes = page - address % page;
		if (bytes > VARIABLE_BYTES || process_read(pid, address, variable, bytes))
			return;
	}
	if (strnlen(variable, bytes) < bytes)
		text_add_bytes(environment, variable, strlen(variable) + 1);
}

/* The address of `environ`; 0: it is not found. */
static uint64_t find_environ(pid_t pid)
{
	struct maps *maps = maps__read(pid);
	struct module_ref *modules = NULL;
	ssize_t count = maps ? maps__modules(maps, &modules) : 0;
	uint64_t environ_at = 0, bias;

	for (ssize_t i = 0; i < count && !environ_at; i++) {
		const struct mapping *mapping = maps__find(maps, modules[i].map_start);
		struct image *image;

		if (!mapping || (!begins_with(modules[i].base, "libc.so.") &&
				 !begins_with(modules[i].base, "libc-2.")))
			continue;
		image = mapped_image_open(process_task(pid), mapping, &bias);
		if (image)
			environ_at =
				mapped_variable(process_task(pid), maps, image, bias, "environ");
		image__free(image);
	}
	free(modules);
	maps__free(maps);
	return environ_at;
}

bool rank_of_process(pid_t pid, uint64_t *environ_at, struct rank *rank)
{
	char *at_start = NULL;
	ssize_t bytes = environment_read(pid, &at_start);
	bool found = bytes > 0 && rank_of_environment(at_start, (size_t)bytes, rank);
	struct text environment = {0};
	uint64_t array = 0, variable;

	free(at_start);
	if (found)
		return true;
	if (!*environ_at)
		*environ_at = find_environ(pid);
	pid = process_task(pid);
	if (*environ_at && process_read(pid, *environ_at, &array, sizeof(array)))
		array = 0;
	for (size_t i = 0; array && i < VARIABLES_MAX; i++, array += sizeof(variable)) {
		if (process_read(pid, array, &variable, sizeof(variable)) || !variable)
			break;
		add_variable(pid, variable, &environment);
	}
	found = environment.length && !environment.failed &&
		rank_of_environment(text_peek(&environment), environment.length, rank);
	text_clear(&environment);
	return found;
}
