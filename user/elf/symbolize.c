// SPDX-License-Identifier: BSD-2-Clause
#include "elf/symbolize.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "elf/demangle.h"
#include "proc/process.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* The DWARF of one file. */
struct dwarf_file {
	struct dwarf_part {
		Elf *elf;
		Dwarf *dwarf;
		struct {
			const char *bytes;
			size_t size;
		} sections[32]; /* .debug_* */
		size_t sections_count;
	} own, alt;	      /* alt: what dwz moved to a common file, or nothing */
	unsigned local_steps; /* of dwarf_file__name in itself */
	struct map64 names;   /* entry → index in name_list */
	const char **name_list;
	size_t name_list_count, name_list_capacity;
	struct pool pool;
};

/* Those that libdw has read, and unpacked, when it opened the file. False: it would read on behind
 * the end of a section of strings. */
static bool find_sections(struct dwarf_part *part)
{
	Elf_Scn *section = NULL;
	GElf_Shdr shdr;
	size_t names;

	if (elf_getshdrstrndx(part->elf, &names))
		return false;
	while ((section = elf_nextscn(part->elf, section)) &&
	       part->sections_count < sizeof(part->sections) / sizeof(part->sections[0])) {
		const char *name = gelf_getshdr(section, &shdr)
					   ? elf_strptr(part->elf, names, shdr.sh_name)
					   : NULL;
		Elf_Data *data = NULL;

		if (name && (begins_with(name, ".debug_") || begins_with(name, ".zdebug_")))
			data = elf_rawdata(section, NULL);
		if (!data || !data->d_buf || !data->d_size)
			continue;
		part->sections[part->sections_count].bytes = data->d_buf;
		part->sections[part->sections_count++].size = data->d_size;
		if (strstr(name, "_str") && !strstr(name, "_str_") &&
		    ((const char *)data->d_buf)[data->d_size - 1])
			return false;
	}
	return true;
}

static _Noreturn void exit_without_memory(void)
{
	_exit(1); /* not exit() as libdw does: it would flush the output that the parent buffered */
}

static bool open_dwarf(struct dwarf_part *part, int fd)
{
	elf_version(EV_CURRENT);
	/* mapped: sections that are not compressed need no heap */
	part->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	part->dwarf = part->elf ? dwarf_begin_elf(part->elf, DWARF_C_READ, NULL) : NULL;
	if (!part->dwarf)
		return false;
	dwarf_new_oom_handler(part->dwarf, exit_without_memory);
	return find_sections(part);
}

static void close_dwarf(struct dwarf_part *part)
{
	dwarf_end(part->dwarf);
	elf_end(part->elf);
}

static void dwarf_file__free(struct dwarf_file *file)
{
	if (!file)
		return;
	close_dwarf(&file->own);
	close_dwarf(&file->alt);
	map64_clear(&file->names);
	free(file->name_list);
	pool_clear(&file->pool);
	free(file);
}

/* NULL: no DWARF, or none that can be used. */
static struct dwarf_file *dwarf_file__open(struct image *image)
{
	struct dwarf_file *file;
	int fd, alt_fd;

	if (image__debug_info(image, &fd, &alt_fd))
		return NULL;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	if (!open_dwarf(&file->own, fd) || (alt_fd >= 0 && !open_dwarf(&file->alt, alt_fd))) {
		dwarf_file__free(file);
		return NULL;
	}
	if (file->alt.dwarf)
		dwarf_setalt(file->own.dwarf, file->alt.dwarf);
	return file;
}

static const char *text_in(const struct dwarf_part *part, const char *text)
{
	for (size_t i = 0; i < part->sections_count; i++) {
		const char *end = part->sections[i].bytes + part->sections[i].size;

		if (text >= part->sections[i].bytes && text < end)
			return memchr(text, 0, (size_t)(end - text)) ? text : NULL;
	}
	return NULL;
}

/* The text of an attribute, which libdw gives without looking for its end. NULL: it has none. */
static const char *dwarf_file__text(const struct dwarf_file *file, Dwarf_Attribute *attribute)
{
	const char *text = dwarf_formstring(attribute);

	return text ? text_in(&file->own, text) ?: text_in(&file->alt, text) : NULL;
}

/*
 * Names of functions that have no symbol, for they were inlined. Most entries say their mangled
 * name; those with internal linkage (static, in an anonymous namespace, members of local classes)
 * have just the last part of it, and the rest is in the names of the entries around them.
 */

/* An entry may be an instance of an abstract one, and that the definition of a declaration. */
enum { ORIGIN_STEPS = 16 };

/* The entry that stands in its scope. */
static Dwarf_Die origin_of(const Dwarf_Die *function)
{
	static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
	Dwarf_Die die = *function, next;
	Dwarf_Attribute attribute;

	for (int step = 0; step < ORIGIN_STEPS; step++) {
		if (!dwarf_attr(&die, links[0], &attribute) &&
		    !dwarf_attr(&die, links[1], &attribute))
			break;
		if (!dwarf_formref_die(&attribute, &next))
			break;
		die = next;
	}
	return die;
}

static const char *string_of(const struct dwarf_file *file, Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_file__text(file, dwarf_attr_integrate(die, name, &attribute));
}

/* How a function's name may need that of the function it is local to, and so on. */
enum { LOCAL_STEPS = 8 };

static const char *dwarf_file__name(struct dwarf_file *file, Dwarf_Die *function);

static void add_scope(struct dwarf_file *file, struct text *text, Dwarf_Die *scope,
		      const char *unnamed_type)
{
	const char *name = string_of(file, scope, DW_AT_name);

	switch (dwarf_tag(scope)) {
	case DW_TAG_namespace:
	case DW_TAG_module:
		text_add(text, name ? name : "(anonymous namespace)");
		break;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		text_add(text, name ? name : unnamed_type);
		break;
	case DW_TAG_subprogram:
		/* it may lie outside of its own scope */
		text_clear(text);
		if (file->local_steps < LOCAL_STEPS)
			text_add(text, dwarf_file__name(file, scope));
		break;
	default:
		return;
	}
	text_add(text, "::");
}

/* The child that target is in, or is: children lie one behind the other, each in front of its own
 * children. */
static bool child_towards(Dwarf_Die *scope, const Dwarf_Die *target, Dwarf_Die *towards)
{
	Dwarf_Die child;
	bool found = false;

	if (dwarf_child(scope, &child) != 0)
		return false;
	do {
		if (child.addr > target->addr)
			break;
		*towards = child;
		found = true;
	} while (dwarf_siblingof(&child, &child) == 0);
	return found;
}

static void add_scopes(struct dwarf_file *file, struct text *text, Dwarf_Die *target,
		       const char *name)
{
	bool call = begins_with(name, "operator()");
	Dwarf_Die scope, towards;

	if (!dwarf_diecu(target, &scope, NULL, NULL))
		return;
	switch (dwarf_srclang(&scope)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_Mips_Assembler:
		return; /* these have no scopes */
	}
	while (child_towards(&scope, target, &towards) && towards.addr != target->addr) {
		add_scope(file, text, &towards, call ? "{lambda}" : "{unnamed type}");
		scope = towards;
	}
}

static char *make_name(struct dwarf_file *file, Dwarf_Die *origin, Dwarf_Die *function)
{
	const char *name = string_of(file, function, DW_AT_linkage_name);
	struct text text = {0};

	if (!name)
		name = string_of(file, function, DW_AT_MIPS_linkage_name);
	if (name)
		return demangle(name);
	name = string_of(file, function, DW_AT_name);
	if (!name)
		return NULL;
	file->local_steps++;
	add_scopes(file, &text, origin, name);
	file->local_steps--;
	text_add(&text, name);
	return text_take(&text);
}

/* The qualified name of a function; "" unknown. Lives as long as the file. */
static const char *dwarf_file__name(struct dwarf_file *file, Dwarf_Die *function)
{
	Dwarf_Die origin = origin_of(function);
	uint64_t key = (uintptr_t)origin.addr;
	uint32_t index = map64_get(&file->names, key);
	const char *kept;
	char *name;

	if (index != MAP64_NONE)
		return file->name_list[index];
	name = make_name(file, &origin, function);
	kept = name ? pool_add(&file->pool, name) : "";
	free(name);
	if (!kept || LIST_ADD(file->name_list, kept))
		return "";
	if (map64_put(&file->names, key, (uint32_t)file->name_list_count - 1))
		file->name_list_count--;
	return kept;
}

/*
 * The tree of a compilation unit: which functions have code at given addresses, and what was
 * inlined there. dwarf_getscopes does that for one address by a walk over the whole unit; here one
 * walk serves all addresses of a unit. Trees are untrusted: depth and number of entries are
 * bounded, and libdw sees to it that a sibling lies behind its elder.
 */

enum { DEPTH_MAX = 64 };

/* Addresses in the ranges of a unit, and the functions that cover them. */
struct unit {
	const struct image *image;
	Dwarf_Die die;
	Dwarf_Files *files;
	uint64_t *vaddrs;     /* ascending */
	size_t *indices;      /* of these in job->vaddrs */
	Dwarf_Die *functions; /* of each address, if found */
	bool *found;
	size_t count, left; /* left: not found yet */
	/* Functions inside functions (GNU C, Ada, the bodies of OpenMP's parallel regions) and
	 * inside types (Rust), where compilers seldom put any: searched when some are missing. */
	bool everywhere;
};

/* Functions that the linker has dropped have ranges that start at 0, or so. */
static bool is_code(const struct image *image, uint64_t vaddr)
{
	size_t available;

	return image__code(image, vaddr, &available);
}

static void match_function(struct unit *unit, Dwarf_Die *function)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(function, offset, &base, &start, &end)) > 0) {
		size_t i = PARTITION_POINT(at, unit->count, unit->vaddrs[at] < start);

		if (!is_code(unit->image, start))
			continue;
		for (; i < unit->count && unit->vaddrs[i] < end; i++) {
			if (unit->found[i])
				continue;
			unit->found[i] = true;
			unit->functions[i] = *function;
			unit->left--;
		}
	}
}

static bool may_hold_functions(const struct unit *unit, int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
		return true;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		return unit->everywhere;
	}
	return false;
}

static void walk_children(struct unit *unit, Dwarf_Die *parent, int depth)
{
	Dwarf_Die child;

	if (depth > DEPTH_MAX || dwarf_child(parent, &child) != 0)
		return;
	do {
		int tag = dwarf_tag(&child);

		if (tag == DW_TAG_subprogram)
			match_function(unit, &child);
		if (unit->left && may_hold_functions(unit, tag))
			walk_children(unit, &child, depth + 1);
	} while (unit->left && dwarf_siblingof(&child, &child) == 0);
}

/* The child at the address that is inlined, or a block with such a thing in it. */
static bool inner(Dwarf_Die *scope, uint64_t vaddr, Dwarf_Die *child)
{
	if (dwarf_child(scope, child) != 0)
		return false;
	do {
		int tag = dwarf_tag(child);

		if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
		    dwarf_haspc(child, vaddr) == 1)
			return true;
	} while (dwarf_siblingof(child, child) == 0);
	return false;
}

/* The calls inlined in a function at an address, outermost first. Returns the count. */
static size_t inlined_calls(const Dwarf_Die *function, uint64_t vaddr, Dwarf_Die *inlined,
			    size_t room)
{
	Dwarf_Die scope = *function, child;
	size_t count = 0;

	while (inner(&scope, vaddr, &child)) {
		scope = child;
		if (dwarf_tag(&child) != DW_TAG_inlined_subroutine)
			continue;
		if (count == room) /* the outermost goes */
			memmove(inlined, inlined + 1, --count * sizeof(*inlined));
		inlined[count++] = child;
	}
	return count;
}

struct job {
	struct image *image;
	const uint64_t *vaddrs;
	size_t count;
	symbolized_fn *fn;
	void *ctx;
	bool *done;
	FILE *answers;	 /* in the child: the pipe to its parent; else NULL */
	size_t received; /* bytes from the child */

	struct symbol symbol; /* of the last address: neighbours often share it */
	char *name;	      /* its own, demangled */

	struct dwarf_file *file; /* NULL: none */
	struct unit unit;	 /* the one at hand */
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
	const char *file;
	Dwarf_Line *line;
	int number = 0;

	line = dwarf_getsrc_die(&unit->die, vaddr);
	file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
	if (!file && !unit->found[i])
		return 0; /* not this unit's, whatever its ranges say */
	places[0].file = file ?: "";
	places[0].line = line && dwarf_lineno(line, &number) == 0 && number > 0 ? number : 0;
	if (unit->found[i])
		count = inlined_calls(&unit->functions[i], vaddr, inlined,
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

ORDER(compare_indices, size_t, ASCENDING(*a, *b))

/* The addresses in the unit's ranges that no unit before it has explained. */
static void claim(struct job *job)
{
	struct unit *unit = &job->unit;
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;
	size_t kept = 0;

	unit->count = 0;
	while ((offset = dwarf_ranges(&unit->die, offset, &base, &start, &end)) > 0) {
		size_t i = PARTITION_POINT(at, job->count, job->vaddrs[at] < start);

		if (!is_code(job->image, start))
			continue;
		for (; i < job->count && job->vaddrs[i] < end && unit->count < job->count; i++)
			if (!job->done[i])
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

static int emit_unit(struct job *job)
{
	struct unit *unit = &job->unit;
	Dwarf_Attribute folder;
	int err = 0;

	claim(job);
	/* libdw prefixes file names with the folder; without its NUL it would read past the section
	 */
	if (!unit->count || (dwarf_attr(&unit->die, DW_AT_comp_dir, &folder) &&
			     !dwarf_file__text(job->file, &folder)))
		return 0;
	if (dwarf_getsrcfiles(&unit->die, &unit->files, NULL) != 0)
		unit->files = NULL;
	memset(unit->found, 0, unit->count * sizeof(*unit->found));
	unit->left = unit->count;
	unit->everywhere = false;
	walk_children(unit, &unit->die, 0);
	unit->everywhere = true;
	if (unit->left)
		walk_children(unit, &unit->die, 0);
	for (size_t i = 0; !err && i < unit->count; i++)
		err = emit_place(job, i);
	if (job->answers)
		fflush(job->answers);
	return err;
}

static int emit_units(struct job *job)
{
	struct unit *unit = &job->unit;
	Dwarf_Off offset = 0, next;
	struct mallinfo2 used;
	size_t header;
	int err = 0;

	unit->image = job->image;
	unit->vaddrs = calloc(job->count, sizeof(*unit->vaddrs));
	unit->indices = calloc(job->count, sizeof(*unit->indices));
	unit->functions = calloc(job->count, sizeof(*unit->functions));
	unit->found = calloc(job->count, sizeof(*unit->found));
	if (!unit->vaddrs || !unit->indices || !unit->functions || !unit->found)
		err = -ENOMEM;
	for (; !err && job->file &&
	       dwarf_next_unit(job->file->own.dwarf, offset, &next, &header, NULL, NULL, NULL, NULL,
			       NULL, NULL) == 0;
	     offset = next) {
		int tag = dwarf_offdie(job->file->own.dwarf, offset + header, &unit->die)
				  ? dwarf_tag(&unit->die)
				  : DW_TAG_invalid;

		if (tag != DW_TAG_compile_unit && tag != DW_TAG_skeleton_unit)
			continue;
		errno = 0;
		err = emit_unit(job);
		if (errno == ENOMEM) /* libdw reports no error for the unit */
			err = -ENOMEM;
		if (err || !unit->count)
			continue;
		/* libdw frees the data of units only when the file is closed */
		used = mallinfo2();
		if (used.uordblks + used.hblkhd <= SYMBOLIZE_MEMORY_MAX / 2)
			continue;
		dwarf_file__free(job->file);
		job->file = dwarf_file__open(job->image);
	}
	free(unit->vaddrs);
	free(unit->indices);
	free(unit->functions);
	free(unit->found);
	return err;
}

/* -ENOENT: there is no usable DWARF. */
static int emit_with_dwarf(struct job *job)
{
	int err;

	job->file = dwarf_file__open(job->image);
	err = job->file ? emit_units(job) : -ENOENT;
	dwarf_file__free(job->file);
	return err;
}

/*
 * A file of 58 KB can have a line table of 60 million rows, for which libdw allocates 6 GB. libdw
 * reads a table of abbreviations again for each unit that shares it. Trees, ranges and names can
 * grow as large. So a child reads the DWARF, and limits of the kernel end it when it takes too much
 * memory or time. The child sends the answers of each finished unit through a pipe.
 */

#define WALL_SECONDS_MAX 20	     /* for a file system that does not answer */
#define PLACE_TEXT_MAX	 (16u << 10) /* bytes of a name; longer ones are cut */
#define ANSWERS_MAX	 (64u << 20) /* bytes from a child */

/* Followed by the texts, each with its NUL: function and file of each place, in order. */
struct answer {
	uint32_t index, count; /* count 0: the end marker */
	struct {
		uint32_t line, function_size, file_size; /* sizes with the NUL */
	} places[SYMBOLIZE_PLACES_MAX];
};

static uint32_t text_size(const char *text)
{
	return (uint32_t)strnlen(text, PLACE_TEXT_MAX - 1) + 1;
}

static void send_text(FILE *out, const char *text)
{
	fwrite(text, text_size(text) - 1, 1, out);
	putc(0, out);
}

static void send_answer(size_t index, const struct symbolized_place *places, size_t count,
			void *ctx)
{
	struct answer answer = {.index = (uint32_t)index, .count = (uint32_t)count};
	FILE *out = ctx;

	for (size_t i = 0; i < count; i++) {
		answer.places[i].line = places[i].line;
		answer.places[i].function_size = text_size(places[i].function);
		answer.places[i].file_size = text_size(places[i].file);
	}
	fwrite(&answer, sizeof(answer), 1, out);
	for (size_t i = 0; i < count; i++) {
		send_text(out, places[i].function);
		send_text(out, places[i].file);
	}
}

static void limit_child(uint64_t left_ns)
{
	static const int signals[] = {SIGPROF, SIGALRM, SIGPIPE, SIGBUS, SIGSEGV, SIGABRT};
	uint64_t cpu_us = (left_ns < SYMBOLIZE_CPU_NS_MAX ? left_ns : SYMBOLIZE_CPU_NS_MAX) / 1000;
	/* at least 1: a value of 0 would disarm the timer */
	const struct itimerval cpu = {.it_value = {.tv_sec = (time_t)(cpu_us / 1000000),
						   .tv_usec = (suseconds_t)(cpu_us % 1000000 | 1)}};
	const struct itimerval wall = {.it_value = {.tv_sec = WALL_SECONDS_MAX}};
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	unsigned long pages = 0; /* private and writable: RLIMIT_DATA limits their sum */
	char *text = NULL;
	uint64_t bytes;
	sigset_t set;

	if (proc_read("/proc/self/statm", &text, 256) > 0)
		sscanf(text, "%*u %*u %*u %*u %*u %lu", &pages);
	free(text);
	bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) + SYMBOLIZE_MEMORY_MAX;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null_fd, STDERR_FILENO); /* libdw's assertions fail without memory */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		signal(signals[i], SIG_DFL);
		sigaddset(&set, signals[i]);
	}
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes});
	setitimer(ITIMER_PROF, &cpu, NULL);
	setitimer(ITIMER_REAL, &wall, NULL);
}

static _Noreturn void run_child(struct job *job, int fd, uint64_t left_ns)
{
	const struct answer end = {0};
	FILE *out = fdopen(fd, "w");

	limit_child(left_ns);
	job->fn = send_answer;
	job->ctx = job->answers = out;
	if (!out || emit_with_dwarf(job))
		_exit(1);
	fwrite(&end, sizeof(end), 1, out);
	_exit(fflush(out) != 0);
}

/* Returns the text at *at and advances *at past it. */
static const char *next_text(char **at, uint32_t size)
{
	const char *text = *at;

	*at += size;
	(*at)[-1] = '\0';
	return text;
}

static bool is_valid_answer(const struct job *job, const struct answer *answer)
{
	if (!answer->count)
		return true;
	if (answer->index >= job->count || job->done[answer->index] ||
	    answer->count > SYMBOLIZE_PLACES_MAX)
		return false;
	for (uint32_t i = 0; i < answer->count; i++)
		if (answer->places[i].function_size - 1 >= PLACE_TEXT_MAX ||
		    answer->places[i].file_size - 1 >= PLACE_TEXT_MAX)
			return false;
	return true;
}

/* The child reads untrusted files, so its sizes are checked. False: no answer follows; *complete:
 * the child has sent the end marker. */
static bool receive_answer(struct job *job, FILE *in, char *texts, bool *complete)
{
	struct symbolized_place places[SYMBOLIZE_PLACES_MAX];
	struct answer answer;
	size_t bytes = 0;
	char *at = texts;

	if (fread(&answer, sizeof(answer), 1, in) != 1 || !is_valid_answer(job, &answer))
		return false;
	*complete = !answer.count;
	for (uint32_t i = 0; i < answer.count; i++)
		bytes += answer.places[i].function_size + answer.places[i].file_size;
	job->received += sizeof(answer) + bytes;
	if (*complete || job->received > ANSWERS_MAX || fread(texts, bytes, 1, in) != 1)
		return false;
	for (uint32_t i = 0; i < answer.count; i++) {
		places[i].line = answer.places[i].line;
		places[i].function = next_text(&at, answer.places[i].function_size);
		places[i].file = next_text(&at, answer.places[i].file_size);
	}
	job->done[answer.index] = true;
	job->fn(answer.index, places, answer.count, job->ctx);
	return true;
}

/* Closes fd. True: the child has sent all its answers. */
static bool receive_answers(struct job *job, int fd)
{
	char *texts = malloc(2 * SYMBOLIZE_PLACES_MAX * PLACE_TEXT_MAX);
	FILE *in = fdopen(fd, "r");
	bool complete = false;

	while (in && texts && receive_answer(job, in, texts, &complete))
		;
	free(texts);
	if (in)
		fclose(in);
	else
		close(fd);
	return complete;
}

static uint64_t ns_of(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

static void emit_by_child(struct job *job, struct symbolize_budget *budget)
{
	struct rusage usage = {0};
	uint64_t used_ns;
	pid_t child;
	int ends[2];

	budget->exceeded = true;
	if (pipe2(ends, O_CLOEXEC))
		return;
	child = fork();
	if (!child)
		run_child(job, ends[1], budget->left_ns);
	close(ends[1]);
	budget->exceeded = !receive_answers(job, ends[0]);
	while (child > 0 && wait4(child, NULL, 0, &usage) < 0 && errno == EINTR)
		;
	used_ns = ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
	budget->left_ns -= used_ns < budget->left_ns ? used_ns : budget->left_ns;
}

int symbolize(struct image *image, struct symbolize_budget *budget, const uint64_t *vaddrs,
	      size_t count, symbolized_fn *fn, void *ctx)
{
	struct job job = {.image = image, .vaddrs = vaddrs, .count = count, .fn = fn, .ctx = ctx};
	int err = 0;

	if (!count)
		return 0;
	job.done = calloc(count, sizeof(*job.done));
	if (!job.done)
		return -ENOMEM;
	/* sorts the symbols before fork: parent and child share the result */
	if (!symbol_name(&job, vaddrs[0]))
		err = -ENOMEM;
	else if (!budget)
		err = emit_with_dwarf(&job) == -ENOMEM ? -ENOMEM : 0;
	else if (!budget->exceeded && image__has_dwarf(image))
		emit_by_child(&job, budget);
	/* addresses without DWARF */
	for (size_t i = 0; !err && i < count; i++) {
		struct symbolized_place place = {.file = ""};

		if (job.done[i])
			continue;
		place.function = symbol_name(&job, vaddrs[i]);
		if (place.function)
			fn(i, &place, 1, ctx);
		else
			err = -ENOMEM;
	}
	free(job.done);
	free(job.name);
	return err;
}
