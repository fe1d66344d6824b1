// SPDX-License-Identifier: BSD-2-Clause
/* How processes ended, in words, and which of it is a finding. */
#include "analyze/death.h"
#include "analyze_scene.h"
#include "base/escape.h"

#include <signal.h>

/* A launcher and its two workers, one of which has ended. */
struct family {
	struct scene scene;
	struct profile_process processes[3];
};

static void family_set(struct family *f, int status)
{
	scene_set(&f->scene);
	for (size_t i = 0; i < 3; i++) {
		f->processes[i] = f->scene.process;
		f->processes[i].index = (uint32_t)i + 1;
		f->processes[i].pid = 42 + (uint32_t)i;
		f->processes[i].ppid = i ? 42 : 1;
		f->processes[i].end = (struct profile_end){.sender = "",
							   .sender_parent = "",
							   .file = "",
							   .cgroup = "",
							   .storage = "",
							   .oom_kills_count = PROFILE_ABSENT};
	}
	f->processes[1].exited = true;
	f->processes[1].status = status;
	f->processes[1].to_ns = f->processes[1].from_ns + 5 * S;
	f->scene.profile.processes = f->processes;
	f->scene.profile.processes_count = 3;
}

/* By the signal of its status. */
static struct perfx_signal *signal_of(struct family *f, uint32_t flags)
{
	struct perfx_signal *signal = &f->processes[1].end.signal;
	uint64_t end_ns = f->processes[1].to_ns;

	*signal = (struct perfx_signal){.signal = (uint32_t)f->processes[1].status & 0x7f,
					.flags = flags,
					.time_ns = end_ns,
					.sent_ns = end_ns - 2 * MS,
					.tid = 43};
	return signal;
}

static void sent_by(struct family *f, uint32_t pid, uint32_t ppid)
{
	struct perfx_signal *signal = signal_of(f, PERFX_SIGNAL_SENT);

	signal->sender_pid = pid;
	signal->sender_ppid = ppid;
	f->processes[1].end.sender = "pkill";
	f->processes[1].end.sender_parent = "bash";
}

static void expect_words(const struct family *f, enum death death, const char *words)
{
	struct text text = {0}, plain = {0};

	death_add(&text, &f->scene.profile, &f->processes[1]);
	escape_unmarked(&plain, text_peek(&text));
	cr_expect_str_eq(text_peek(&plain), words);
	cr_expect_eq(death_of(&f->scene.profile, &f->processes[1]), death, "%s", words);
	text_clear(&text);
	text_clear(&plain);
}

/* The kinds about deaths, of the three processes. */
static void expect_findings(const struct family *f, const char *kinds)
{
	struct analysis *analysis = analyze(&f->scene.profile, NULL);
	struct text text = {0};

	for (size_t i = 0; i < analysis->processes_count; i++) {
		const struct process_analysis *of = &analysis->processes[i];

		for (size_t k = 0; k < of->findings_count; k++)
			if (of->findings[k].bottleneck == BOTTLENECK_DEATH)
				text_printf(&text, "%s%zu %s/%s", text.length ? " " : "", i,
					    of->findings[k].kind,
					    finding_severity_name(of->findings[k].severity));
	}
	cr_expect_str_eq(text_peek(&text), kinds);
	text_clear(&text);
	analysis__free(analysis);
}

static void expect_none(const struct family *f)
{
	expect_findings(f, "");
}

Test(death, a_status)
{
	struct family f;

	family_set(&f, 3 << 8);
	expect_words(&f, DEATH_STATUS, "exited with status 3");
	expect_findings(&f, "0 LostChild/high 1 Died/medium");
	/* a program that the job only calls, and which called nothing that is traced */
	f.processes[1].exec_count = 1;
	f.processes[1].rows_count = 0;
	f.processes[1].cmdline = "grep\x1f-q";
	f.processes[1].comm = "grep";
	expect_none(&f);
	/* the program itself */
	f.processes[1].ppid = 1;
	expect_findings(&f, "1 Died/high");
	f.processes[1].status = 0;
	expect_words(&f, DEATH_NONE, "exited with status 0");
	expect_none(&f);
}

/* It tested a condition; what its program called, too. */
Test(death, a_status_of_a_subshell)
{
	struct family f;

	family_set(&f, 1 << 8);
	f.processes[0].comm = f.processes[1].comm = "sh";
	f.processes[1].rows_count = 0;
	expect_none(&f);
	/* a rank that a shell started */
	f.processes[1].comm = "python3";
	f.processes[1].exec_count = 1;
	f.processes[1].rows_count = 1;
	expect_findings(&f, "0 LostChild/high 1 Died/medium");
}

Test(death, a_status_of_a_called_programs_child)
{
	struct family f;

	family_set(&f, 1 << 8);
	f.processes[1].rows_count = 0;
	expect_findings(&f, "0 LostChild/high 1 Died/medium");
	f.processes[1].ppid = f.processes[2].pid;
	f.processes[2].exec_count = 1;
	f.processes[2].rows_count = 0;
	f.processes[2].cmdline = "cmake\x1f.";
	f.processes[1].comm = f.processes[2].comm = "cmake";
	expect_none(&f);
}

Test(death, a_signal_of_somebody)
{
	struct family f;

	family_set(&f, SIGKILL);
	expect_words(&f, DEATH_KILLED, "was killed by SIGKILL");
	sent_by(&f, 4711, 4700);
	expect_words(&f, DEATH_KILLED,
		     "was killed by SIGKILL from pkill (pid 4711) of bash (pid 4700)");
	expect_findings(&f, "0 LostChild/high 1 Died/medium");
	sent_by(&f, 42, 1);
	expect_words(&f, DEATH_ASKED, "was killed by SIGKILL from its parent pkill (pid 42)");
	expect_none(&f);
	/* its launcher's launcher */
	sent_by(&f, 1, 0);
	expect_words(&f, DEATH_ASKED, "was killed by SIGKILL from pkill (pid 1)");
	sent_by(&f, 4711, 4700);
	f.processes[1].end.signal.flags |= PERFX_SIGNAL_SENDER_ENDS;
	expect_words(&f, DEATH_ASKED,
		     "was killed by SIGKILL from pkill (pid 4711) of bash (pid 4700), which "
		     "ended");
	/* another signal than that of its end says nothing */
	sent_by(&f, 4711, 4700);
	f.processes[1].end.signal.signal = SIGTERM;
	expect_words(&f, DEATH_KILLED, "was killed by SIGKILL");
}

Test(death, a_status_after_a_signal)
{
	struct family f;

	family_set(&f, SIGTERM);
	sent_by(&f, 4711, 1);
	f.processes[1].status = 143 << 8;
	expect_words(&f, DEATH_KILLED,
		     "exited with status 143, 2.00 ms after SIGTERM from pkill (pid 4711)");
	/* it went on for long */
	f.processes[1].end.signal.sent_ns -= 31 * S;
	expect_words(&f, DEATH_STATUS, "exited with status 143");
}

Test(death, of_memory)
{
	struct perfx_signal *signal;
	struct family f;

	family_set(&f, SIGKILL);
	f.processes[1].end.out_of_memory = true;
	f.processes[1].rss_peak_bytes = 48 << 20;
	signal = signal_of(&f, 0);
	expect_words(&f, DEATH_OF_MEMORY,
		     "was killed for lack of memory (SIGKILL by the kernel): the machine had no "
		     "memory left");
	signal->cgroup_limit_bytes = 64 << 20;
	signal->cgroup_used_bytes = 63 << 20;
	f.processes[1].end.cgroup = "/job";
	f.processes[1].end.neighbours[0] = (struct profile_neighbour){7, "cache", 1 << 20};
	f.processes[1].end.neighbours_count = 1;
	expect_words(&f, DEATH_OF_MEMORY,
		     "was killed for lack of memory (SIGKILL by the kernel): its control group "
		     "/job used 63.0 MiB of its limit of 64.0 MiB, the process at most 48.0 MiB; "
		     "then in it: cache (pid 7) 1.00 MiB");
	expect_findings(&f, "0 LostChild/high 1 Died/medium");
	/* the group's memory was not full, and the killer had not chosen it */
	f.processes[1].end.out_of_memory = false;
	signal->cgroup_used_bytes = 32 << 20;
	expect_words(&f, DEATH_KILLED, "was killed by SIGKILL from the kernel");
}

Test(death, faults)
{
	struct perfx_signal *signal;
	struct family f;

	family_set(&f, SIGSEGV);
	signal = signal_of(&f, PERFX_SIGNAL_FAULT);
	signal->code = SEGV_MAPERR;
	signal->address = 0xdead0000;
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGSEGV at address 0xdead0000, where nothing is mapped");
	expect_findings(&f, "0 LostChild/high 1 Died/medium");
	signal->flags |= PERFX_SIGNAL_NEAR_STACK;
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGSEGV at address 0xdead0000, just beyond its stack: the stack "
		     "overflowed");
	signal->address = 0x10;
	expect_words(&f, DEATH_CRASHED, "crashed by SIGSEGV at address 0x10: a null pointer");
	signal->address = 0;
	signal->code = SI_KERNEL;
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGSEGV: an address that no memory can have, or a privileged "
		     "instruction");
	signal->address = 0x7000;
	signal->code = SEGV_ACCERR;
	signal->flags = PERFX_SIGNAL_FAULT | PERFX_SIGNAL_MAPPED | PERFX_SIGNAL_READ;
	signal->file_offset = 0x2000;
	f.processes[1].end.file = "data.bin";
	f.processes[1].status |= 0x80;
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGSEGV at address 0x7000, in data.bin at 0x2000, mapped r--; it "
		     "left a core dump");
	f.processes[1].end.file = "";
	f.processes[1].status = SIGSEGV;
	signal->flags |= PERFX_SIGNAL_HEAP;
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGSEGV at address 0x7000, in the heap, mapped r--");
}

Test(death, mapped_files)
{
	struct perfx_signal *signal;
	struct family f;

	family_set(&f, SIGBUS);
	signal = signal_of(&f, PERFX_SIGNAL_FAULT | PERFX_SIGNAL_MAPPED);
	signal->code = BUS_ADRERR;
	signal->file_offset = 8192;
	signal->file_bytes = 8192;
	f.processes[1].end.file = "data.bin";
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGBUS: in the mapped file data.bin at 8.00 KiB, beyond its end "
		     "at 8.00 KiB: it was truncated, or is too short");
	signal->file_bytes = 8193;
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGBUS: in the mapped file data.bin at 0x2000, which could not be "
		     "read or has no room on its disk");
	signal->flags |= PERFX_SIGNAL_TMPFS;
	signal->storage_bytes = signal->storage_used_bytes = 64 << 20;
	f.processes[1].end.storage = "/dev/shm";
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGBUS: in the mapped file data.bin, for which /dev/shm has no "
		     "room: 64.0 MiB of 64.0 MiB are used");
}

Test(death, others)
{
	struct family f;

	family_set(&f, SIGABRT);
	sent_by(&f, 43, 42);
	expect_words(&f, DEATH_CRASHED,
		     "crashed by SIGABRT: it called abort(), for a reason that it wrote on stderr");
	sent_by(&f, 4711, 1);
	expect_words(&f, DEATH_KILLED, "was killed by SIGABRT from pkill (pid 4711)");
	family_set(&f, SIGPIPE);
	sent_by(&f, 43, 42);
	expect_words(&f, DEATH_ASKED,
		     "was killed by SIGPIPE: it wrote to a pipe or socket that nobody reads");
	family_set(&f, SIGINT);
	signal_of(&f, 0);
	expect_words(&f, DEATH_ASKED, "was killed by SIGINT from its terminal");
	family_set(&f, 40);
	expect_words(&f, DEATH_KILLED, "was killed by signal 40");
}

/* The first failure is the cause of the others. */
Test(death, the_first_of_several)
{
	struct analysis *analysis;
	struct family f;

	family_set(&f, SIGKILL);
	sent_by(&f, 4711, 4700);
	f.processes[0].exited = f.processes[2].exited = true;
	f.processes[0].status = f.processes[2].status = 1 << 8;
	expect_findings(&f, "0 LostChild/high 0 Died/medium 1 Died/medium 2 Died/medium");
	analysis = analyze(&f.scene.profile, NULL);
	cr_expect(strstr(analysis->verdict, "KILLED: "), "%s", analysis->verdict);
	cr_expect(strstr(analysis->verdict, "lost a child: "), "%s", analysis->verdict);
	analysis__free(analysis);
}

/* The failed instruction is in a library, for a line of the program. */
Test(death, where_it_was)
{
	const struct profile_frame library = {.function = "memcpy",
					      .file = "",
					      .module = "/lib/libc.so.6",
					      .module_base = "libc.so.6"};
	const struct profile_frame line = {.function = "decode",
					   .file = "/home/data.py",
					   .module = "",
					   .module_base = "",
					   .line = 12,
					   .language = PERFX_LANGUAGE_PYTHON};
	const struct profile_frame *frames[] = {&library, &line};
	const struct profile_stack stack = {.frames = frames, .frames_count = 2};
	struct profile_last_sample sample = {.tid = 43, .before_ns = 2 * MS, .comm = ""};
	struct analysis *analysis;
	struct family f;

	family_set(&f, SIGSEGV);
	signal_of(&f, PERFX_SIGNAL_FAULT)->code = SEGV_MAPERR;
	sample.what.stack = &stack;
	f.processes[1].end.samples = &sample;
	f.processes[1].end.samples_count = 1;
	f.scene.profile.processes_count = 2;
	analysis = analyze(&f.scene.profile, NULL);
	cr_expect(strstr(analysis->verdict, "a null pointer; in "), "%s", analysis->verdict);
	cr_expect(strstr(analysis->verdict, ", called from "), "%s", analysis->verdict);
	cr_expect_str_eq(analysis->processes[0].findings[0].place.function, "decode");
	analysis__free(analysis);
	/* the thread was sampled before, and may have moved on */
	sample.before_ns = 40 * MS;
	analysis = analyze(&f.scene.profile, NULL);
	cr_expect(strstr(analysis->verdict, "its main thread was last seen in "), "%s",
		  analysis->verdict);
	cr_expect(strstr(analysis->verdict, ", 40.0 ms before"), "%s", analysis->verdict);
	analysis__free(analysis);
}
