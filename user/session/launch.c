// SPDX-License-Identifier: BSD-2-Clause
#include "session/recorder.h"

#include "base/file.h"
#include "base/message.h"
#include "base/text.h"
#include "elf/image.h"
#include "perfx_agent.h"
#include "proc/maps.h"
#include "proc/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENVIRONMENT_MAX (2 << 20)

/* The sudo process among our ancestors; where sudo has replaced itself by us, the shell above. */
static pid_t sudo_process(void)
{
	pid_t pid = getppid(), parent = pid;
	struct process_info info;

	for (int depth = 0; pid > 1 && depth < 8; depth++) {
		if (process_info(pid, &info))
			break;
		if (!strcmp(info.comm, "sudo"))
			return pid;
		pid = info.ppid;
	}
	return parent;
}

/* The environment of the user who called sudo (NULL-terminated, malloc'd as one block with its
 * strings): what sudo itself was started with, so with the shell's PATH and virtual environment,
 * which sudo hides from the command it runs. NULL when it cannot be read. */
static char **caller_environment(void)
{
	char *text = NULL, *strings, **environment = NULL;
	ssize_t read_size =
		proc_read_pid(process_task(sudo_process()), "environ", &text, ENVIRONMENT_MAX);
	size_t size = read_size > 0 ? (size_t)read_size : 0, count = 0, n = 0;

	for (size_t i = 0; i < size; i++)
		count += !text[i];
	if (size)
		environment = malloc((count + 2) * sizeof(*environment) + size + 1);
	if (environment) {
		strings = (char *)(environment + count + 2);
		memcpy(strings, text, size + 1);
		for (char *p = strings; p < strings + size; p += strlen(p) + 1)
			environment[n++] = p;
		environment[n] = NULL;
	}
	free(text);
	return environment;
}

/*
 * `run` sets environment variables so that the program reports what probes cannot see: inlined
 * NVTX 3 calls (it loads our library instead) and Python functions (Python imports a hook as it
 * starts). Both files lie beside perfx-trace: in lib/perfx of its own folder or of the parent.
 */

struct inject {
	char *entries[5]; /* NAME=value */
	size_t count;
	char *files[2]; /* libraries that it will map */
	size_t files_count;
	bool nvtx; /* NVTX 3 calls our library */
};

#define NVTX_VARIABLE	   "NVTX_INJECTION64_PATH"
#define INJECTION_VARIABLE "CUDA_INJECTION64_PATH"

static const char *value_in(char *const *environment, const char *name)
{
	size_t length = strlen(name);

	if (!environment)
		return getenv(name);
	for (; *environment; environment++)
		if (!strncmp(*environment, name, length) && (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

/* A file that was built or installed with it; malloc'd, NULL: it is not there. */
static char *find_beside(const char *name)
{
	static const char *const places[] = {"lib/perfx", "../lib/perfx"};
	char folder[PATH_MAX], *slash, *path, *found = NULL;
	ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	folder[length > 0 ? length : 0] = '\0';
	slash = strrchr(folder, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	for (size_t i = 0; !found && i < sizeof(places) / sizeof(places[0]); i++) {
		if (asprintf(&path, "%s/%s/%s", folder, places[i], name) < 0)
			return NULL;
		found = realpath(path, NULL);
		free(path);
	}
	return found;
}

static void add_variable(struct inject *inject, const char *name, const char *value,
			 const char *rest)
{
	char *entry;

	if (asprintf(&entry, "%s=%s%s%s", name, value, rest && *rest ? ":" : "",
		     rest ? rest : "") >= 0)
		inject->entries[inject->count++] = entry;
}

static void prepare_nvtx(struct inject *inject, char *const *environment)
{
	const char *taken = value_in(environment, NVTX_VARIABLE);
	char *library;

	if (taken && *taken) {
		msg_say(NVTX_VARIABLE " is already set to %s and is kept: inlined ranges of NVTX 3 "
				      "are not traced",
			taken);
		return;
	}
	library = find_beside("libperfx-nvtx.so");
	if (!library)
		return;
	add_variable(inject, NVTX_VARIABLE, library, NULL);
	inject->nvtx = inject->count > 0;
	inject->files[inject->files_count++] = library;
}

static bool prepare_python(struct inject *inject, char *const *environment)
{
	char *library = find_beside("libperfx-python.so");
	char *hook = find_beside("python/sitecustomize.py");
	bool found = library && hook;

	if (found) {
		*strrchr(hook, '/') = '\0';
		add_variable(inject, "PYTHONPATH", hook, value_in(environment, "PYTHONPATH"));
		add_variable(inject, "PERFX_PYTHON_LIBRARY", library, NULL);
		inject->files[inject->files_count++] = library;
	} else {
		msg_say("--python-level 1: %s not found: run make install",
			library ? "lib/perfx/python" : "lib/perfx/libperfx-python.so");
		free(library);
	}
	free(hook);
	return found;
}

/* The driver loads what CUDA_INJECTION64_PATH names when it is initialised. */
static bool prepare_gpu(struct inject *inject, char *const *environment, const char *socket)
{
	const char *taken = value_in(environment, INJECTION_VARIABLE);
	char *library;

	if (taken && *taken) {
		msg_say(INJECTION_VARIABLE
			" is already set to %s and is kept: the GPU's work is not "
			"recorded (--gpu)",
			taken);
		return true;
	}
	library = find_beside("libperfx-gpu.so");
	if (!library) {
		msg_say("--gpu: lib/perfx/libperfx-gpu.so not found: run make install");
		return false;
	}
	add_variable(inject, INJECTION_VARIABLE, library, NULL);
	add_variable(inject, PERFX_AGENT_SOCKET_VARIABLE, socket, NULL);
	free(library);
	return true;
}

struct launch {
	pid_t pid;
	bool held;  /* stopped under ptrace */
	bool ended; /* reaped */
	struct inject inject;
	int status;
};

/* The child's failure, reported through a pipe that exec closes. */
struct failure {
	enum { FAILED_USER = 1, FAILED_TRACE, FAILED_EXEC } step;
	int err;
};

static void run_child(char *const *argv, const struct launch_options *options,
		      char *const *environment, const struct inject *inject, int failure_fd)
{
	struct failure failure = {.step = FAILED_EXEC};
	const struct passwd *user;
	uid_t uid;
	gid_t gid;
	bool is_called = caller_ids(&uid, &gid);
	pid_t parent = getppid();
	int input;

	/* ignored signals outlive exec, caught ones do not */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	if (environment)
		clearenv();
	for (char *const *entry = environment; entry && *entry; entry++)
		if (strchr(*entry, '='))
			putenv(*entry);
	if (options->as_caller && is_called) {
		user = getenv("SUDO_UID") ? getpwuid(uid) : NULL;
		if (user) { /* sudo has set HOME to root's */
			setenv("HOME", user->pw_dir, 1);
			setenv("USER", user->pw_name, 1);
			setenv("LOGNAME", user->pw_name, 1);
		}
		failure.err = -caller_become(uid, gid);
		if (failure.err) {
			failure.step = FAILED_USER;
			goto out;
		}
	}
	for (size_t i = 0; i < inject->count; i++)
		putenv(inject->entries[i]);
	for (char *const *entry = options->environment; entry && *entry; entry++)
		putenv(*entry);
	/* after the change of user, which takes the signal of the parent's death back */
	if (options->apart_fd) {
		input = open("/dev/null", O_RDONLY);
		setsid();
		dup2(input, STDIN_FILENO);
		dup2(options->apart_fd, STDOUT_FILENO);
		dup2(options->apart_fd, STDERR_FILENO);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent) /* it has died already */
			_exit(125);
	}
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) {
		failure = (struct failure){.step = FAILED_TRACE, .err = errno};
		goto out;
	}
	execvp(argv[0], argv); /* by the PATH that is now in force */
	failure.err = errno;
out:
	if (write(failure_fd, &failure, sizeof(failure)) != sizeof(failure))
		_exit(125);
	_exit(failure.err == ENOENT ? 127 : 126);
}

#define POLL_MIN_NS 20000
#define POLL_MAX_NS 5000000

/* Waits until the program stops or ends. False: the user has interrupted perfx-trace first. */
static bool wait_for_stop(struct launch *launch)
{
	struct timespec pause = {.tv_nsec = POLL_MIN_NS};
	pid_t found;

	while (!(found = waitpid(launch->pid, &launch->status, WNOHANG)) && !interrupt_asked()) {
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < POLL_MAX_NS)
			pause.tv_nsec *= 2;
	}
	return found == launch->pid;
}

/* Continues until the next SIGTRAP; other signals are delivered. false: it has ended. */
static bool continue_to_trap(struct launch *launch, int request)
{
	int signal = 0;

	do {
		if (ptrace(request, launch->pid, NULL, (void *)(intptr_t)signal) ||
		    !wait_for_stop(launch))
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

static int find_debug_state(const struct symbol *symbol, void *vaddr)
{
	if (strcmp(symbol->name, "_dl_debug_state"))
		return 0;
	*(uint64_t *)vaddr = symbol->vaddr;
	return 1;
}

/* Where the kernel has put the dynamic linker: AT_BASE; 0 for a static program. */
static uint64_t linker_base(pid_t pid)
{
	char *text = NULL;
	ssize_t size = proc_read_pid(pid, "auxv", &text, 0);
	uint64_t base = 0;
	Elf64_auxv_t entry;

	for (ssize_t at = 0; at + (ssize_t)sizeof(entry) <= size; at += (ssize_t)sizeof(entry)) {
		memcpy(&entry, text + at, sizeof(entry));
		if (entry.a_type == AT_BASE)
			base = entry.a_un.a_val;
	}
	free(text);
	return base;
}

/* Address of the linker's _dl_debug_state in the process; 0: none. *calls: at which of its calls
 * the libraries are complete. glibc calls it before and after loading them, musl only after. */
static uint64_t debug_state_address(pid_t pid, unsigned *calls)
{
	uint64_t base = linker_base(pid), vaddr = 0;
	struct maps *maps = base ? maps__read(pid) : NULL;
	const struct mapping *mapping = maps ? maps__find(maps, base) : NULL;
	struct module_ref *refs = NULL;
	ssize_t count = mapping ? maps__modules(maps, &refs) : 0;

	for (ssize_t i = 0; i < count; i++) {
		struct image *image;
		int fd;

		if (refs[i].inode != mapping->inode)
			continue;
		*calls = begins_with(refs[i].base, "ld-musl") ? 1 : 2;
		fd = module_open(pid, &refs[i]);
		image = fd >= 0 ? image__open(fd, refs[i].path, "") : NULL;
		if (image)
			image__each_function(image, find_debug_state, &vaddr);
		image__free(image);
		if (fd >= 0)
			close(fd);
		break;
	}
	free(refs);
	maps__free(maps);
	return vaddr ? base + vaddr : 0;
}

static void run_to_libraries(struct launch *launch)
{
	unsigned calls = 0;
	uint64_t address = debug_state_address(launch->pid, &calls);
	long original, trap;

	if (!address)
		return;
	errno = 0;
	original = ptrace(PTRACE_PEEKTEXT, launch->pid, (void *)address, NULL);
	if (errno)
		return;
	trap = (original & ~0xffL) | 0xcc;
	while (calls--) {
		struct user_regs_struct regs;

		if (ptrace(PTRACE_POKETEXT, launch->pid, (void *)address, (void *)trap) ||
		    !continue_to_trap(launch, PTRACE_CONT))
			return;
		ptrace(PTRACE_POKETEXT, launch->pid, (void *)address, (void *)original);
		ptrace(PTRACE_GETREGS, launch->pid, NULL, &regs);
		regs.rip = address;
		ptrace(PTRACE_SETREGS, launch->pid, NULL, &regs);
		if (calls && !continue_to_trap(launch, PTRACE_SINGLESTEP))
			return;
	}
}

#else

/* On other machines a program is held at exec, and its libraries are attached when they are
 * mapped. */
static void run_to_libraries(struct launch *launch)
{
	(void)launch;
}

#endif

static void say_failure(const struct failure *failure, const char *program)
{
	bool is_here = !strchr(program, '/') && !access(program, X_OK);
	struct text quoted = {0};

	shell_quote(&quoted, program);
	if (failure->step == FAILED_USER)
		msg_say("cannot switch to the user who called sudo: %s", strerror(failure->err));
	else if (failure->step == FAILED_TRACE)
		msg_say("%s: cannot be stopped before its first instruction (ptrace: %s)", program,
			strerror(failure->err));
	else if (script_interpreter(program))
		msg_say("%s: cannot be executed: %s: to start a script: perfx-trace run -- %s %s",
			program, strerror(failure->err), script_interpreter(program),
			text_peek(&quoted));
	else if (failure->err == ENOENT && is_here)
		msg_say("%s: not found in PATH: perfx-trace run -- ./%s", program,
			text_peek(&quoted));
	else if (failure->err == ENOENT)
		msg_say("%s: not found", program);
	else
		msg_say("%s: cannot be executed: %s", program, strerror(failure->err));
	text_clear(&quoted);
}

/* Forks a child that stops at exec. False: it has ended, which has been said; *exit_code likewise.
 */
static bool start_child(struct launch *launch, char *const *argv,
			const struct launch_options *options, int *exit_code)
{
	struct inject *inject = &launch->inject;
	char **environment = NULL;
	struct failure failure;
	int failure_pipe[2];
	bool failed;
	uid_t uid;
	gid_t gid;

	/* here, where the parent is sudo or the shell */
	if (options->as_caller && caller_ids(&uid, &gid))
		environment = caller_environment();
	/* variables that the user has set are kept, with a message */
	if (options->nvtx)
		prepare_nvtx(inject, environment);
	failed = (options->gpu_socket && !prepare_gpu(inject, environment, options->gpu_socket)) ||
		 (options->python_functions && !prepare_python(inject, environment));
	if (!failed && pipe2(failure_pipe, O_CLOEXEC)) {
		failed = true;
		msg_say("%s: cannot be started: %s", argv[0], strerror(errno));
	}
	launch->pid = failed ? -1 : fork();
	if (launch->pid == 0)
		run_child(argv, options, environment, &launch->inject, failure_pipe[1]);
	free(environment);
	if (failed)
		return false;
	failed = launch->pid < 0;
	if (failed)
		msg_say("%s: cannot be started: %s", argv[0], strerror(errno));
	close(failure_pipe[1]);
	if (!failed && read(failure_pipe[0], &failure, sizeof(failure)) == sizeof(failure)) {
		failed = true;
		say_failure(&failure, argv[0]);
		waitpid(launch->pid, &launch->status, 0);
		if (WIFEXITED(launch->status) && failure.step != FAILED_TRACE)
			*exit_code = WEXITSTATUS(launch->status);
	}
	close(failure_pipe[0]);
	return !failed;
}

/* Takes the stopped child to where its libraries are mapped. */
static bool hold_child(struct launch *launch, const char *program)
{
	launch->held = wait_for_stop(launch) && WIFSTOPPED(launch->status) &&
		       WSTOPSIG(launch->status) == SIGTRAP;
	if (launch->held) {
		ptrace(PTRACE_SETOPTIONS, launch->pid, NULL, (void *)PTRACE_O_EXITKILL);
		run_to_libraries(launch);
	}
	if (interrupt_asked())
		msg_say("%s: interrupted before it ran", program);
	else if (launch->held || launch->ended)
		return true;
	else
		msg_say("%s: ended before its first instruction", program);
	kill(launch->pid, SIGKILL);
	return false;
}

struct launch *launch__start(char *const *argv, const struct launch_options *options,
			     int *exit_code)
{
	struct launch *launch = calloc(1, sizeof(*launch));

	*exit_code = EXIT_FAILED;
	if (launch && start_child(launch, argv, options, exit_code) &&
	    hold_child(launch, argv[0])) {
		*exit_code = EXIT_OK;
		return launch;
	}
	launch__free(launch);
	return NULL;
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

bool launch__wait(struct launch *launch, int timeout_ms, int *status)
{
	if (!launch->ended)
		process_ends_within(launch->pid, timeout_ms);
	if (!launch->ended && waitpid(launch->pid, &launch->status, WNOHANG) == launch->pid)
		launch->ended = WIFEXITED(launch->status) || WIFSIGNALED(launch->status);
	*status = launch->status;
	return launch->ended;
}

void launch__free(struct launch *launch)
{
	if (!launch)
		return;
	if (launch->held) {
		kill(launch->pid, SIGKILL);
		waitpid(launch->pid, NULL, 0);
	}
	for (size_t i = 0; i < launch->inject.count; i++)
		free(launch->inject.entries[i]);
	for (size_t i = 0; i < launch->inject.files_count; i++)
		free(launch->inject.files[i]);
	free(launch);
}
