// SPDX-License-Identifier: BSD-2-Clause
/* Files of rules by which findings are judged (--rules). */
#include "fuzz.h"

#include "analyze/analyze.h"
#include "analyze/rule_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile_row row = {.function = 1, .calls_count = 9, .timed_count = 9, .self_ns = 9};
	struct profile_function function = {.id = 1, .name = "f", .module = "", .module_base = ""};
	struct profile_process process = {.comm = "p",
					  .cmdline = "",
					  .to_ns = 1000000000,
					  .cpu_ns = 1,
					  .rows = &row,
					  .rows_count = 1};
	const struct profile profile = {.duration_ns = 1000000000,
					.functions = &function,
					.functions_count = 1,
					.processes = &process,
					.processes_count = 1};
	char path[FUZZ_PATH], why[RULE_SET_WHY] = "";
	int fd = fuzz_file(data, size, path);
	struct rule_set *rules = rule_set__load(path, why);

	close(fd);
	if (!rules && !*why)
		abort();
	if (rules)
		analysis__free(analyze(&profile, rules));
	rule_set__free(rules);
	return 0;
}
