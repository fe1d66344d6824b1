// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/cupti_check.h"

#include "gpu/agents.h"
#include "perfx_agent.h"
#include "proc/maps.h"
#include "proc/process.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The newest of the first of these that there is. */
static bool find_library(char *path, size_t size)
{
	static const char *const places[] = {
		"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.*",
		"/usr/local/cuda/lib64/libcupti.so.*",
		"/usr/local/cuda-*/extras/CUPTI/lib64/libcupti.so.*",
		"/usr/local/cuda-*/lib64/libcupti.so.*",
		"/usr/lib/*-linux-gnu/libcupti.so.*",
	};
	bool found = false;

	for (size_t i = 0; !found && i < sizeof(places) / sizeof(places[0]); i++) {
		glob_t matches;

		found = !glob(places[i], 0, NULL, &matches) && matches.gl_pathc;
		if (found)
			snprintf(path, size, "%s", matches.gl_pathv[matches.gl_pathc - 1]);
		globfree(&matches);
	}
	return found;
}

struct answer {
	int has_driver; /* with a device */
	uint32_t version;
};

__attribute__((noreturn)) static void ask(const char *path, int answer_fd)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *library = NULL;
	int (*initialise)(unsigned) = driver ? dlsym(driver, "cuInit") : NULL;
	int (*get_count)(int *) = driver ? dlsym(driver, "cuDeviceGetCount") : NULL;
	int (*get_version)(uint32_t *) = NULL;
	struct answer answer = {0};
	int count = 0;

	answer.has_driver =
		initialise && get_count && !initialise(0) && !get_count(&count) && count > 0;
	if (answer.has_driver)
		library = dlopen(path, RTLD_NOW);
	if (library)
		get_version = dlsym(library, "cuptiGetVersion");
	if (get_version)
		get_version(&answer.version);
	_exit(write(answer_fd, &answer, sizeof(answer)) != sizeof(answer));
}

/* A driver without persistence mode begins with each GPU anew. */
#define ANSWER_MS 20000

/* False: no answer came, so it has crashed or hangs. */
static bool ask_in_child(const char *path, struct answer *answer)
{
	int ends[2];
	bool answered;
	pid_t child;

	if (pipe(ends))
		return false;
	child = fork();
	if (!child)
		ask(path, ends[1]);
	close(ends[1]);
	answered = child > 0 && process_answers(child, ends[0], answer, sizeof(*answer), ANSWER_MS);
	close(ends[0]);
	if (child > 0)
		process_reap(child, 0);
	return answered;
}

enum cupti_state cupti_check(char *what, char *why, size_t size)
{
	struct answer answer = {0};
	char path[256], release[48];
	const char *bad;

	snprintf(what, size, "CUPTI");
	if (!find_library(path, sizeof(path))) {
		snprintf(why, size,
			 "part of NVIDIA's CUDA toolkit; --gpu 1 uses the traced program's own");
		return CUPTI_ABSENT;
	}
	snprintf(what, size, "CUPTI (%s)", path);
	if (!ask_in_child(path, &answer) || (answer.has_driver && !answer.version)) {
		snprintf(why, size, "it crashes or gives no answer");
		return CUPTI_FAILS;
	}
	if (!answer.has_driver) {
		snprintf(why, size, "there is no NVIDIA GPU for it to trace");
		return CUPTI_NO_GPU;
	}
	cupti_release(answer.version, release, sizeof(release));
	snprintf(what, size, "CUPTI %s (%s)", release, path);
	bad = perfx_agent_bad_cupti(answer.version);
	if (bad)
		snprintf(why, size, "known to be bad: %s", bad);
	return bad ? CUPTI_FAILS : CUPTI_WORKS;
}

static const char *profiler_in(pid_t pid)
{
	struct maps *maps = maps__read(pid);
	struct module_ref *modules = NULL;
	ssize_t count = maps ? maps__modules(maps, &modules) : 0;
	const char *name = NULL;

	for (ssize_t i = 0; i < count && !name; i++)
		name = perfx_agent_profiler(modules[i].base);
	free(modules);
	maps__free(maps);
	return name;
}

bool profilers_check(char *why, size_t size)
{
	const char *injection = getenv("CUDA_INJECTION64_PATH"), *name = NULL;
	pid_t *pids = NULL;
	ssize_t count;

	if (injection && *injection) {
		snprintf(why, size, "CUDA_INJECTION64_PATH is %s: unset it for --gpu 1", injection);
		return false;
	}
	count = process_list(&pids);
	for (ssize_t i = 0; i < count && !name; i++) {
		name = profiler_in(pids[i]);
		if (name)
			snprintf(why, size,
				 "%s has it in pid %d: --gpu 1 is refused there until that ends",
				 name, (int)pids[i]);
	}
	free(pids);
	return !name;
}

bool ptrace_check(char *why, size_t size)
{
	char *text = NULL;
	long scope = 0;

	if (proc_read("/proc/sys/kernel/yama/ptrace_scope", &text, 64) > 0)
		scope = strtol(text, NULL, 10);
	free(text);
	if (scope >= 3)
		snprintf(why, size, "kernel.yama.ptrace_scope is 3, until the next boot");
	return scope < 3;
}
