// SPDX-License-Identifier: BSD-2-Clause
#include "top/top.h"

#include "base/file.h"
#include "base/message.h"
#include "base/scratch.h"
#include "base/text.h"
#include "proc/process.h"
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct report_job {
	const char *rules_file;
	char *path;	       /* of the report; NULL: none is wanted */
	struct scratch folder; /* of the capture */
	char *capture;	       /* in it; NULL: the path is the capture's */
	bool is_wanted;	       /* by the recording */
	pid_t pid;	       /* that makes the report; 0: none */
	int errors_fd;	       /* its stderr */
};

struct report_job *report_job__new(const char *rules_file)
{
	struct report_job *job = calloc(1, sizeof(*job));

	scratch_sweep();
	if (job) {
		job->rules_file = rules_file;
		job->errors_fd = -1;
	}
	return job;
}

/* Time for a cancelled report to end by itself. */
#define END_MS 2000

/* Of the report that was asked for last. */
static void clear_job(struct report_job *job)
{
	if (job->errors_fd >= 0)
		close(job->errors_fd);
	scratch_remove(&job->folder);
	free(job->path);
	free(job->capture);
	*job = (struct report_job){.rules_file = job->rules_file, .errors_fd = -1};
}

void report_job__free(struct report_job *job)
{
	if (!job)
		return;
	if (job->pid) {
		kill(job->pid, SIGTERM);
		process_reap(job->pid, END_MS);
		msg_say("%s: not written: the recording ended", job->path);
	}
	clear_job(job);
	free(job);
}

static bool is_capture(const char *path)
{
	return strlen(path) > strlen(".perfx") && ends_with(path, ".perfx");
}

void report_job__begin(struct report_job *job, const char *path)
{
	int err = 0;

	if (job->path) {
		msg_say("%s is still being written", job->path);
		return;
	}
	if (!is_capture(path) && !format_for_path(&report_formats, path)) {
		msg_say("%s: unknown suffix: %s .perfx", path, format_suffixes(&report_formats));
		return;
	}
	job->path = strdup(path);
	if (!job->path)
		err = -ENOMEM;
	else if (!is_capture(path))
		err = scratch_make(&job->folder);
	if (!err && !is_capture(path))
		err = scratch_file(&job->folder, "last.perfx", &job->capture);
	if (err) {
		msg_say("%s: %s", path, output_error(err));
		clear_job(job);
		return;
	}
	job->is_wanted = true;
	msg_say("%s: being written…", path);
}

char *report_job__wants(struct report_job *job)
{
	if (!job->is_wanted)
		return NULL;
	job->is_wanted = false;
	return strdup(job->capture ? job->capture : job->path);
}

/* 0 or -errno. */
static int start_report(struct report_job *job)
{
	char *rules = (char *)job->rules_file;
	char *const argv[] = {"perfx-trace", "report",	job->capture,
			      "-o",	     job->path, rules ? "--rules" : NULL,
			      rules,	     NULL};
	posix_spawn_file_actions_t actions;
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDERR_FILENO);
	err = -posix_spawn(&job->pid, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	job->errors_fd = fds[0];
	job->pid = err ? 0 : job->pid;
	return err;
}

void report_job__captured(struct report_job *job, const char *path, int err)
{
	(void)path;
	if (!job->path)
		return;
	if (!err && job->capture)
		err = start_report(job);
	if (!err && job->pid)
		return;
	if (err)
		msg_say("%s: %s", job->path, output_error(err));
	else
		msg_say("%s: written", job->path);
	clear_job(job);
}

void report_job__tick(struct report_job *job)
{
	int status;

	if (!job->pid || waitpid(job->pid, &status, WNOHANG) != job->pid)
		return;
	job->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK)
		msg_say("%s: written", job->path);
	else {
		/* Prints the first line of its stderr, without the program's name. */
		char line[512];
		ssize_t count = read(job->errors_fd, line, sizeof(line) - 1);
		const char *words = line;

		line[count > 0 ? count : 0] = '\0';
		line[strcspn(line, "\n")] = '\0';
		if (begins_with(line, "perfx-trace: "))
			words += strlen("perfx-trace: ");
		if (*words)
			msg_say("%s", words);
		else
			msg_say("%s: not written", job->path);
	}
	clear_job(job);
}
