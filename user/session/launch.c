// SPDX-License-Identifier: BSD-2-Clause
#include "session/launch.h"

#include "base/caller.h"
#include "base/message.h"
#include "elf/image.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "session/environment.h"
#include "session/inject.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

struct launch {
	pid_t pid;
	bool held;  /* stopped under ptrace */
	bool ended; /* reaped */
	struct inject inject;
	int status;
};

/* What the child could not do, reported through a pipe that exec closes. */
struct failure {
	enum { FAILED_USER = 1, FAILED_EXEC } step;
	int err;
};

static void replace_environment(char *const *environment)
{
	clearenv();
	for (char *const *entry = environment; *entry; entry++)
		if (strchr(*entry, '='))
			putenv(*entry);
}

/* sudo's own environment says whose home it is: root's. */
static void leave_sudo(uid_t uid)
{
	const struct passwd *user = getenv("SUDO_UID") ? getpwuid(uid) : NULL;

	if (!user)
		return;
	setenv("HOME", user->pw_dir, 1);
	setenv("USER", user->pw_name, 1);
	setenv("LOGNAME", user->pw_name, 1);
}

static void run_child(char *const *argv, bool as_caller, char *const *environment,
		      const struct inject *inject, int failure_fd)
{
	struct failure failure = {.step = FAILED_EXEC};
	uid_t uid;
	gid_t gid;
	bool is_called = caller_ids(&uid, &gid);

	/* ignored signals outlive exec, caught ones do not */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	if (environment)
		replace_environment(environment);
	if (as_caller && is_called) {
		leave_sudo(uid);
		failure.err = -caller_become(uid, gid);
		if (failure.err) {
			failure.step = FAILED_USER;
			goto out;
		}
	}
	inject_apply(inject);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	execvp(argv[0], argv); /* by the PATH that is now in force */
	failure.err = errno;
out:
	if (write(failure_fd, &failure, sizeof(failure)) != sizeof(failure))
		_exit(125);
	_exit(failure.err == ENOENT ? 127 : 126);
}

static bool stopped_by(int status, int signal)
{
	return WIFSTOPPED(status) && WSTOPSIG(status) == signal;
}

/* Lets it go on until it stops again; other signals on the way are its own. false: it has ended. */
static bool go_on(struct launch *launch, int request)
{
	int signal = 0;

	do {
		if (ptrace(request, launch->pid, NULL, (void *)(intptr_t)signal))
			return false;
		if (waitpid(launch->pid, &launch->status, 0) != launch->pid)
			return false;
		if (!WIFSTOPPED(launch->status)) {
			launch->ended = true;
			launch->held = false;
			return false;
		}
		signal = WSTOPSIG(launch->status);
	} while (signal != SIGTRAP);
	return true;
}

#if defined(__x86_64__)

struct wanted_symbol {
	const char *name;
	uint64_t vaddr;
};

static int match_symbol(const struct symbol *symbol, void *ctx)
{
	struct wanted_symbol *wanted = ctx;

	if (strcmp(symbol->name, wanted->name))
		return 0;
	wanted->vaddr = symbol->vaddr;
	return 1;
}

/* Where the kernel has put the dynamic linker: AT_BASE; 0 for a static program. */
static uint64_t linker_base(pid_t pid)
{
	Elf64_auxv_t entry;
	uint64_t base = 0;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while (read(fd, &entry, sizeof(entry)) == sizeof(entry) && entry.a_type != AT_NULL)
		if (entry.a_type == AT_BASE)
			base = entry.a_un.a_val;
	close(fd);
	return base;
}

/* Address of the linker's _dl_debug_state in the process; 0: none. *calls: with which of its calls
 * the libraries are complete. glibc tells that it begins and that it is done, musl only the latter.
 */
static uint64_t debug_state_address(pid_t pid, unsigned *calls)
{
	struct wanted_symbol wanted = {.name = "_dl_debug_state"};
	uint64_t base = linker_base(pid);
	struct maps *maps = base ? maps__read(pid) : NULL;
	const struct mapping *mapping = maps ? maps__find(maps, base) : NULL;
	struct module_ref *refs = NULL;
	ssize_t count = mapping ? maps__modules(maps, &refs) : 0;

	for (ssize_t i = 0; i < count; i++) {
		struct image *image;
		int fd;

		if (refs[i].inode != mapping->inode)
			continue;
		*calls = strncmp(refs[i].base, "ld-musl", 7) ? 2 : 1;
		fd = module_open(pid, &refs[i]);
		image = fd >= 0 ? image__open(fd, refs[i].path, "") : NULL;
		if (image)
			image__each_function(image, match_symbol, &wanted);
		image__free(image);
		if (fd >= 0)
			close(fd);
		break;
	}
	free(refs);
	maps__free(maps);
	return wanted.vaddr ? base + wanted.vaddr : 0;
}

static bool poke(pid_t pid, uint64_t address, long word)
{
	return !ptrace(PTRACE_POKETEXT, pid, (void *)address, (void *)word);
}

/* Runs to the given call of the function at address, and stands at its first instruction. */
static void run_to(struct launch *launch, uint64_t address, unsigned calls)
{
	long original, trap;

	errno = 0;
	original = ptrace(PTRACE_PEEKTEXT, launch->pid, (void *)address, NULL);
	if (errno)
		return;
	trap = (original & ~0xffL) | 0xcc;
	while (calls--) {
		struct user_regs_struct regs;

		if (!poke(launch->pid, address, trap) || !go_on(launch, PTRACE_CONT))
			return;
		poke(launch->pid, address, original);
		ptrace(PTRACE_GETREGS, launch->pid, NULL, &regs);
		regs.rip = address;
		ptrace(PTRACE_SETREGS, launch->pid, NULL, &regs);
		if (calls && !go_on(launch, PTRACE_SINGLESTEP))
			return;
	}
}

static void run_to_libraries(struct launch *launch)
{
	unsigned calls = 0;
	uint64_t address = debug_state_address(launch->pid, &calls);

	if (address)
		run_to(launch, address, calls);
}

#else

/* Elsewhere a program is held at exec; its libraries are attached to as they are mapped. */
static void run_to_libraries(struct launch *launch)
{
	(void)launch;
}

#endif

static void say_failure(const struct failure *failure, const char *program)
{
	if (failure->step == FAILED_USER)
		msg_say("cannot become the user who called sudo: %s", strerror(failure->err));
	else if (failure->err == ENOENT)
		msg_say("%s: not found", program);
	else
		msg_say("%s: cannot be executed: %s", program, strerror(failure->err));
}

struct launch *launch__start(char *const *argv, const struct launch_options *options,
			     int *exit_code)
{
	struct launch *launch = calloc(1, sizeof(*launch));
	char **environment = NULL;
	bool as_caller = options->as_caller;
	struct failure failure;
	uid_t uid;
	gid_t gid;
	int failure_pipe[2];

	*exit_code = EXIT_FAILED;
	if (!launch || pipe2(failure_pipe, O_CLOEXEC)) {
		free(launch);
		return NULL;
	}
	/* here, where the parent is sudo or the shell */
	if (as_caller && caller_ids(&uid, &gid))
		environment = caller_environment();
	if (!inject_prepare(&launch->inject, environment, options->nvtx, options->python_functions))
		launch->pid = -1;
	else
		launch->pid = fork();
	if (launch->pid == 0)
		run_child(argv, as_caller, environment, &launch->inject, failure_pipe[1]);
	free(environment);
	close(failure_pipe[1]);
	if (launch->pid > 0 &&
	    read(failure_pipe[0], &failure, sizeof(failure)) == sizeof(failure)) {
		say_failure(&failure, argv[0]);
		waitpid(launch->pid, &launch->status, 0);
		*exit_code = WIFEXITED(launch->status) ? WEXITSTATUS(launch->status) : EXIT_FAILED;
		launch->pid = -1;
	}
	close(failure_pipe[0]);
	if (launch->pid < 0) {
		inject_clear(&launch->inject);
		free(launch);
		return NULL;
	}
	if (waitpid(launch->pid, &launch->status, 0) != launch->pid ||
	    !stopped_by(launch->status, SIGTRAP)) {
		msg_say("%s: cannot be held before its first instruction (ptrace is not allowed "
			"here)",
			argv[0]);
		kill(launch->pid, SIGKILL);
		inject_clear(&launch->inject);
		free(launch);
		return NULL;
	}
	launch->held = true;
	ptrace(PTRACE_SETOPTIONS, launch->pid, NULL, (void *)PTRACE_O_EXITKILL);
	run_to_libraries(launch);
	*exit_code = EXIT_OK;
	return launch;
}

bool launch__nvtx(const struct launch *launch)
{
	return launch->inject.nvtx;
}

char *const *launch__files(const struct launch *launch, size_t *count)
{
	*count = launch->inject.files_count;
	return launch->inject.files;
}

pid_t launch__pid(const struct launch *launch)
{
	return launch->pid;
}

void launch__go(struct launch *launch)
{
	if (launch->held)
		ptrace(PTRACE_DETACH, launch->pid, NULL, NULL);
	launch->held = false;
}

bool launch__ended(struct launch *launch, int *status)
{
	if (!launch->ended && waitpid(launch->pid, &launch->status, WNOHANG) == launch->pid)
		launch->ended = WIFEXITED(launch->status) || WIFSIGNALED(launch->status);
	*status = launch->status;
	return launch->ended;
}

bool launch__wait(struct launch *launch, int timeout_ms, int *status)
{
	if (!launch->ended)
		process_ends_within(launch->pid, timeout_ms);
	return launch__ended(launch, status);
}

void launch__free(struct launch *launch)
{
	if (!launch)
		return;
	if (launch->held) {
		kill(launch->pid, SIGKILL);
		waitpid(launch->pid, NULL, 0);
	}
	free(launch);
}
