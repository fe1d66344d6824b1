// SPDX-License-Identifier: BSD-2-Clause
#include "elf/symbolize.h"

#include "elf/demangle.h"
#include "elf/dwarf.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct job {
	struct image *image;
	const uint64_t *vaddrs;
	size_t count;
	symbolized_fn *fn;
	void *ctx;
	bool *done;

	struct symbol symbol; /* of the last address: neighbours often share it */
	char *name;	      /* its own, demangled */

	struct dwarf_file *file; /* NULL: none */
	/* Addresses in the ranges of the unit at hand, ascending, and the functions there. */
	struct unit {
		Dwarf_Die die;
		Dwarf_Files *files;
		uint64_t *vaddrs;
		size_t *indices; /* in job->vaddrs */
		Dwarf_Die *functions;
		bool *found;
		size_t count;
	} unit;
};

/* The name of the function symbol that covers an address; "" none. NULL: no memory. */
static const char *symbol_name(struct job *job, uint64_t vaddr)
{
	struct symbol symbol;
	int err = image__function_at(job->image, vaddr, &symbol);

	if (err)
		return err == -ENOENT ? "" : NULL;
	if (job->name && job->symbol.name == symbol.name)
		return job->name;
	free(job->name);
	job->symbol = symbol;
	job->name = demangle(symbol.name);
	return job->name;
}

/* Without DWARF. */
static int emit_symbol(struct job *job, size_t index)
{
	struct symbolized_place place = {.function = symbol_name(job, job->vaddrs[index]),
					 .file = ""};

	if (!place.function)
		return -ENOMEM;
	job->fn(index, &place, 1, job->ctx);
	job->done[index] = true;
	return 0;
}

/* --- with DWARF ------------------------------------------------------------------------------ */

static bool place_line(struct job *job, uint64_t vaddr, struct symbolized_place *place)
{
	Dwarf_Line *line = dwarf_getsrc_die(&job->unit.die, vaddr);
	const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
	int number = 0;

	place->file = file ? file : "";
	place->line = line && dwarf_lineno(line, &number) == 0 && number > 0 ? (uint32_t)number : 0;
	return file;
}

/* Where it was inlined. */
static void place_call(const struct job *job, Dwarf_Die *inlined, struct symbolized_place *place)
{
	Dwarf_Attribute attribute;
	Dwarf_Word file = 0, line = 0;
	const char *name = NULL;

	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) == 0)
		name = dwarf_filesrc(job->unit.files, file, NULL, NULL);
	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) != 0)
		line = 0;
	place->file = name ? name : "";
	place->line = line <= UINT32_MAX ? (uint32_t)line : 0;
}

static int emit_place(struct job *job, size_t i)
{
	struct symbolized_place places[SYMBOLIZE_PLACES_MAX];
	Dwarf_Die inlined[SYMBOLIZE_PLACES_MAX - 1];
	struct unit *unit = &job->unit;
	uint64_t vaddr = unit->vaddrs[i];
	size_t count = 0;

	if (!place_line(job, vaddr, &places[0]) && !unit->found[i])
		return 0; /* not this unit's, whatever its ranges say */
	if (unit->found[i])
		count = dwarf_file__inlined(job->file, &unit->functions[i], vaddr, inlined,
					    SYMBOLIZE_PLACES_MAX - 1);
	for (size_t depth = 0; depth < count; depth++) {
		Dwarf_Die *call = &inlined[count - 1 - depth];

		places[depth].function = dwarf_file__name(job->file, call);
		place_call(job, call, &places[depth + 1]);
	}
	places[count].function = symbol_name(job, vaddr);
	if (!places[count].function)
		return -ENOMEM;
	if (!places[count].function[0] && unit->found[i])
		places[count].function = dwarf_file__name(job->file, &unit->functions[i]);
	job->fn(unit->indices[i], places, count + 1, job->ctx);
	job->done[unit->indices[i]] = true;
	return 0;
}

static int compare_indices(const void *left, const void *right)
{
	size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return (a > b) - (a < b);
}

/* The addresses in the unit's ranges that no unit before it has explained. */
static void claim(struct job *job)
{
	struct unit *unit = &job->unit;
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;
	size_t kept = 0;

	unit->count = 0;
	while (dwarf_file__spend(job->file) &&
	       (offset = dwarf_ranges(&unit->die, offset, &base, &start, &end)) > 0) {
		if (!dwarf_file__is_code(job->file, start))
			continue;
		for (size_t i = lower_bound(job->vaddrs, job->count, start);
		     i < job->count && job->vaddrs[i] < end && unit->count < job->count; i++)
			if (dwarf_file__spend(job->file) && !job->done[i])
				unit->indices[unit->count++] = i;
	}
	qsort(unit->indices, unit->count, sizeof(*unit->indices), compare_indices);
	for (size_t i = 0; i < unit->count; i++)
		if (!kept || unit->indices[kept - 1] != unit->indices[i])
			unit->indices[kept++] = unit->indices[i];
	unit->count = kept;
	for (size_t i = 0; i < kept; i++)
		unit->vaddrs[i] = job->vaddrs[unit->indices[i]];
}

/* A line of the table costs about as much as an entry of the tree. False also where libdw would put
 * a folder without end in front of the files. */
static bool afford_lines(struct job *job)
{
	Dwarf_Attribute folder;
	Dwarf_Lines *lines;
	size_t count;

	if (dwarf_attr(&job->unit.die, DW_AT_comp_dir, &folder) &&
	    !dwarf_file__text(job->file, &folder))
		return false;
	if (dwarf_getsrclines(&job->unit.die, &lines, &count) != 0)
		return true;
	while (count && dwarf_file__spend(job->file))
		count--;
	return count == 0;
}

static int emit_unit(struct job *job)
{
	struct unit *unit = &job->unit;
	int err = 0;

	claim(job);
	if (!unit->count || !afford_lines(job))
		return 0;
	if (dwarf_getsrcfiles(&unit->die, &unit->files, NULL) != 0)
		unit->files = NULL;
	dwarf_file__functions(job->file, &unit->die, unit->vaddrs, unit->count, unit->functions,
			      unit->found);
	for (size_t i = 0; !err && i < unit->count; i++)
		err = emit_place(job, i);
	return err;
}

static int emit_units(struct job *job)
{
	struct unit *unit = &job->unit;
	Dwarf_CU *cu = NULL;
	int err = 0;

	unit->vaddrs = calloc(job->count, sizeof(*unit->vaddrs));
	unit->indices = calloc(job->count, sizeof(*unit->indices));
	unit->functions = calloc(job->count, sizeof(*unit->functions));
	unit->found = calloc(job->count, sizeof(*unit->found));
	if (!unit->vaddrs || !unit->indices || !unit->functions || !unit->found)
		err = -ENOMEM;
	while (!err && dwarf_file__spend(job->file) &&
	       dwarf_get_units(job->file->own.dwarf, cu, &cu, NULL, NULL, &unit->die, NULL) == 0) {
		int tag = dwarf_tag(&unit->die);

		if (tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit)
			err = emit_unit(job);
	}
	free(unit->vaddrs);
	free(unit->indices);
	free(unit->functions);
	free(unit->found);
	return err;
}

int symbolize(struct image *image, const uint64_t *vaddrs, size_t count, symbolized_fn *fn,
	      void *ctx)
{
	struct job job = {.image = image, .vaddrs = vaddrs, .count = count, .fn = fn, .ctx = ctx};
	int err = 0;

	if (!count)
		return 0;
	job.done = calloc(count, sizeof(*job.done));
	if (!job.done)
		return -ENOMEM;
	job.file = dwarf_file__open(image);
	if (job.file)
		err = emit_units(&job);
	for (size_t i = 0; !err && i < count; i++)
		if (!job.done[i])
			err = emit_symbol(&job, i);
	dwarf_file__free(job.file);
	free(job.done);
	free(job.name);
	return err;
}
