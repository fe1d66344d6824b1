// SPDX-License-Identifier: BSD-2-Clause
/* Plans the calls of the C library on files and sockets. */
#include "base/text.h"
#include "plan/defaults.h"
#include "plan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* None calls another one. Cancellation points, whose frames an exception may cross: they are timed
 * at their exits. open(2), read(2), pread(2), recv(2), send(2); the internal names are stdio's. */
static const struct file_call {
	const char *symbol;
	struct perfx_annotation annotation;
} file_calls[] = {
#define OPENS                                        \
	{                                            \
		.action = PERFX_ANNOTATION_OPEN_FILE \
	}
#define READS                                                      \
	{                                                          \
		.action = PERFX_ANNOTATION_READ_FILE, .key_arg = 1 \
	}
#define READS_AT(from)                                                                \
	{                                                                             \
		.action = PERFX_ANNOTATION_READ_FILE, .key_arg = 1, .tag_arg = (from) \
	}
#define WRITES                                                      \
	{                                                           \
		.action = PERFX_ANNOTATION_WRITE_FILE, .key_arg = 1 \
	}
	{"open", OPENS},
	{"open64", OPENS},
	{"__open64_nocancel", OPENS},
	{"openat", OPENS},
	{"openat64", OPENS},
	{"read", READS},
	{"__read_nocancel", READS},
	{"pread", READS_AT(4)},
	{"pread64", READS_AT(4)},
	{"__pread64_nocancel", READS_AT(4)},
	{"readv", READS},
	{"preadv", READS_AT(4)},
	{"preadv64", READS_AT(4)},
	{"recv", READS},
	{"recvfrom", READS},
	{"recvmsg", READS},
	{"write", WRITES},
	{"__write_nocancel", WRITES},
	{"pwrite", WRITES},
	{"pwrite64", WRITES},
	{"writev", WRITES},
	{"pwritev", WRITES},
	{"pwritev64", WRITES},
	{"send", WRITES},
	{"sendto", WRITES},
	{"sendmsg", WRITES},
#undef OPENS
#undef READS
#undef READS_AT
#undef WRITES
};

bool is_c_library(const char *base)
{
	static const char *const globs[] = {"libc.so*", "libc-2.*.so", "libpthread-2.*.so",
					    "ld-musl-*", NULL};

	return text_matches_one_of(base, globs);
}

const struct perfx_annotation *file_call_find(const char *symbol)
{
	for (size_t i = 0; i < sizeof(file_calls) / sizeof(file_calls[0]); i++)
		if (!strcmp(symbol, file_calls[i].symbol))
			return &file_calls[i].annotation;
	return NULL;
}

struct finding {
	struct plan *plan;
	struct image *image;
	size_t module, first;
};

static int offer(const struct symbol *symbol, void *ctx)
{
	const struct finding *finding = ctx;
	const struct perfx_annotation *annotation = file_call_find(symbol->name);
	struct plan_function function = {
		.ret = PERFX_RETURN_EXIT,
		.ret_why = "a cancellation point",
		.module = (uint32_t)finding->module,
		.vaddr = symbol->vaddr,
		.offset = symbol->offset,
		.size = symbol->size,
		.source = PERFX_SOURCE_SYMBOL,
		.role = PLAN_FILE_CALL,
		.stream_flags = PERFX_FUNCTION_FILES,
	};
	struct site_options options = finding->plan->options.site;
	__u8 *const arguments[] = {&function.annotation.key_arg, &function.annotation.tag_arg};
	const char *why;

	if (!annotation || symbol->cold || symbol->ifunc ||
	    plan_has(finding->plan, finding->first, PLAN_FILE_CALL, symbol->vaddr))
		return 0;
	function.annotation = *annotation;
	options.arguments_may_move = true;
	why = plan_find_site(finding->image, &function, &options, arguments, 2);
	if (!why && (function.site.exits_state != EXITS_KNOWN || function.site.entry_is_exit))
		why = "reads or writes files, but not all of its exits are known";
	function.symbol = strdup(symbol->name);
	function.name = strdup(symbol->name);
	if (why) {
		skipped_add(&finding->plan->skipped, symbol->name, why);
		plan_function_clear(&function);
		return 0;
	}
	if (plan_add_function(finding->plan, &function))
		return -ENOMEM;
	finding->plan->annotations_count++;
	return 0;
}

int plan_file_calls(struct plan *plan, struct image *image, size_t module)
{
	struct finding finding = {
		.plan = plan, .image = image, .module = module, .first = plan->functions_count};

	if (!plan->options.files)
		return 0;
	if (image__traits(image)->is_go)
		skipped_hint(&plan->skipped, plan->modules[module].base,
			     "Go: calls the kernel without the C library: its files are not seen");
	if (!is_c_library(plan->modules[module].base))
		return 0;
	return image__each_function(image, offer, &finding);
}
