// SPDX-License-Identifier: BSD-2-Clause
#include "fixture.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "program_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char sample[] =
	"55d0c0000000-55d0c0002000 r--p 00000000 fe:00 100                        /usr/bin/train\n"
	"55d0c0002000-55d0c0008000 r-xp 00002000 fe:00 100                        /usr/bin/train\n"
	"55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]\n"
	"7f0000000000-7f0000001000 r-xp 00003000 08:11 7   /lib/a\\012b.so (deleted)\n"
	"7f0000001000-7f0000002000 r-xs 00000000 08:11 8   /other/a.so\n"
	"7f0000002000-7f0000003000 r-xp 00001000 08:11 7   /lib/same-file.so\n"
	"7f0000003000-7f0000004000 r-xp 00001000 08:12 7   /lib/same inode.so\n"
	"7f0000004000-7f0000005000 rw-p 00000000 00:00 0 \n"
	"7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

static void expect_same(const struct mapping *found, const struct mapping *wanted)
{
	cr_assert(found && wanted);
	cr_expect_eq(found->start, wanted->start);
	cr_expect_eq(found->end, wanted->end);
	cr_expect_eq(found->file_offset, wanted->file_offset);
	cr_expect_eq(found->inode, wanted->inode);
	cr_expect_eq(found->dev_major, wanted->dev_major);
	cr_expect_eq(found->dev_minor, wanted->dev_minor);
	cr_expect_eq(found->readable, wanted->readable);
	cr_expect_eq(found->writable, wanted->writable);
	cr_expect_eq(found->executable, wanted->executable);
	cr_expect_eq(found->shared, wanted->shared);
	cr_expect_str_eq(found->path, wanted->path);
}

Test(maps, lines)
{
	struct maps *maps = maps__parse(sample, strlen(sample));
	const struct mapping *m;

	cr_assert_not_null(maps);
	cr_assert_eq(maps__count(maps), 10);
	m = maps__at(maps, 1);
	cr_expect_eq(m->start, 0x55d0c0002000);
	cr_expect_eq(m->end, 0x55d0c0008000);
	cr_expect_eq(m->file_offset, 0x2000);
	cr_expect_eq(m->inode, 100);
	cr_expect(m->dev_major == 0xfe && m->dev_minor == 0);
	cr_expect(m->readable && !m->writable && m->executable && !m->deleted);
	cr_expect_str_eq(m->path, "/usr/bin/train");
	cr_expect_str_eq(maps__at(maps, 2)->path, "[heap]");
	cr_expect_str_eq(maps__at(maps, 3)->path, "/lib/a\nb.so");
	cr_expect(maps__at(maps, 3)->deleted);
	cr_expect_str_eq(maps__at(maps, 6)->path, "/lib/same inode.so");
	cr_expect_str_eq(maps__at(maps, 7)->path, "");
	cr_expect(maps__at(maps, 7)->writable);
	cr_expect(maps__at(maps, 4)->shared && !maps__at(maps, 7)->shared);
	cr_expect_eq(maps__at(maps, 9)->start, 0xffffffffff600000);
	cr_expect_null(maps__at(maps, 10));
	maps__free(maps);
}

Test(maps, find)
{
	struct maps *maps = maps__parse(sample, strlen(sample));

	cr_expect_eq(maps__find(maps, 0x55d0c0002000), maps__at(maps, 1));
	cr_expect_eq(maps__find(maps, 0x55d0c0007fff), maps__at(maps, 1));
	cr_expect_null(maps__find(maps, 0x55d0c0008000));
	cr_expect_null(maps__find(maps, 0));
	cr_expect_eq(maps__find(maps, 0xffffffffff600fff), maps__at(maps, 9));
	cr_expect_null(maps__find(maps, UINT64_MAX));
	maps__free(maps);
}

Test(maps, modules)
{
	struct maps *maps = maps__parse(sample, strlen(sample));
	struct module_ref *modules;

	cr_assert_eq(maps__modules(maps, &modules), 4);
	cr_expect_str_eq(modules[0].base, "train");
	cr_expect_eq(modules[0].map_start, 0x55d0c0002000);
	cr_expect_eq(modules[0].map_end, 0x55d0c0008000);
	cr_expect_str_eq(modules[1].base, "a\nb.so");
	cr_expect(modules[1].deleted);
	cr_expect_str_eq(modules[2].path, "/other/a.so");
	cr_expect_str_eq(modules[3].base, "same inode.so", "another device");
	free(modules);
	maps__free(maps);
}

Test(maps, refuses_what_is_no_maps_file)
{
	static const char *const texts[] = {"hello\n", "1000-2000 r-xp\n",
					    "2000-1000 r-xp 0 0:0 0\n", "1000-2000 rx 0 0:0 0\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		errno = 0;
		cr_expect_null(maps__parse(texts[i], strlen(texts[i])), "%s", texts[i]);
		cr_expect_eq(errno, EINVAL);
	}
	maps__free(NULL);
}

static int zeroed[2048]; /* behind the file's data, in a mapping without a name */

static void expect_around(const struct maps *all, const struct maps *around, uint64_t address)
{
	const struct mapping *mapping = maps__find(all, address),
			     *found = maps__find(around, address), *first = mapping;

	cr_assert_eq(!mapping, !found);
	if (!mapping)
		return;
	expect_same(found, mapping);
	/* Linux before 6.11 has the whole list only */
	if (maps__count(around) == maps__count(all))
		return;
	while (first > maps__at(all, 0) && first[-1].end == first->start && first[-1].inode &&
	       (!first->inode || first[-1].inode == first->inode))
		first--;
	expect_same(maps__at(around, 0), first);
	cr_expect_eq(maps__count(around), mapping - first + 1);
}

/* What lies at an address, and where its file begins, are as in the whole list. */
Test(maps, around_an_address)
{
	int on_stack;
	const void *addresses[] = {zeroed + 1024, sample,    (const void *)(uintptr_t)expect_same,
				   stdout,	  &on_stack, NULL};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
		uint64_t address = (uintptr_t)addresses[i];
		struct maps *all = maps__read(getpid()),
			    *around = maps__read_around(getpid(), address);

		expect_around(all, around, address);
		maps__free(all);
		maps__free(around);
	}
	errno = 0;
	cr_expect_null(maps__read_around(0x7fffffff, 0));
	cr_expect_eq(errno, ESRCH);
}

Test(maps, kernel_threads_have_none)
{
	struct maps *maps = maps__parse("", 0);
	struct module_ref *modules;

	cr_assert_not_null(maps);
	cr_expect_eq(maps__count(maps), 0);
	cr_expect_eq(maps__modules(maps, &modules), 0);
	free(modules);
	maps__free(maps);
}

TestSuite(modules, .init = fixture_set_up, .fini = fixture_tear_down);

Test(modules, of_this_process)
{
	struct maps *maps = maps__read(getpid());
	const struct mapping *here = maps__find(maps, (uint64_t)&maps__read);
	struct module_ref *modules;
	struct stat exe, opened;
	int fd;

	cr_assert_not_null(here);
	cr_expect(here->executable && !here->writable);
	cr_assert_gt(maps__modules(maps, &modules), 1);
	fd = module_open(getpid(), &modules[0]);
	cr_assert_geq(fd, 0);
	cr_assert_eq(stat("/proc/self/exe", &exe), 0);
	cr_assert_eq(fstat(fd, &opened), 0);
	cr_expect(exe.st_ino == opened.st_ino && exe.st_dev == opened.st_dev);
	close(fd);
	free(modules);
	maps__free(maps);
}

/* It has no file, but its code is the same in all processes. */
Test(modules, vdso)
{
	struct maps *maps = maps__read(getpid());
	const struct mapping *m = maps__find(maps, getauxval(AT_SYSINFO_EHDR));
	struct module_ref ref;
	char code[4096];
	int fd;

	cr_assert_not_null(m);
	cr_expect(mapping_has_file(m));
	ref = module_of(m);
	fd = module_open(getpid(), &ref);
	cr_assert_geq(fd, 0);
	cr_assert_eq(pread(fd, code, sizeof(code), 0), sizeof(code));
	cr_expect_eq(memcmp(code, (const void *)m->start, sizeof(code)), 0);
	close(fd);
	maps__free(maps);
}

Test(maps, files)
{
	struct maps *maps = maps__parse(sample, strlen(sample));

	cr_expect(mapping_has_file(maps__at(maps, 0)));
	cr_expect_not(mapping_has_file(maps__at(maps, 2)));
	cr_expect_not(mapping_has_file(maps__at(maps, 7)));
	cr_expect(mapping_has_file(maps__at(maps, 8)));
	cr_expect_not(mapping_has_file(maps__at(maps, 9)));
	maps__free(maps);
}

Test(modules, of_no_process)
{
	struct module_ref module = {.inode = 1, .path = "/bin/sh"};
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	cr_expect_null(maps__read(pid));
	cr_expect_eq(errno, ESRCH);
	cr_expect_eq(module_open(pid, &module), -ESRCH);
}

static void *wait_for_kill(void *unused)
{
	pause();
	return unused;
}

/* /proc/PID/map_files, exe and root of a main thread that has ended show nothing. */
Test(modules, of_a_process_without_main_thread, .timeout = 30)
{
	struct process_info info = {0};
	pid_t pid = fork();
	pthread_t thread;
	struct maps *maps;
	bool opened = false;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, wait_for_kill, NULL);
		pthread_exit(NULL);
	}
	while (!process_info(pid, &info) && info.state != 'Z')
		sched_yield();
	maps = maps__read(pid);
	cr_assert_not_null(maps);
	for (size_t i = 0; i < maps__count(maps) && !opened; i++) {
		const struct mapping *mapping = maps__at(maps, i);
		struct module_ref module = module_of(mapping);
		int fd;

		if (!mapping->executable || !mapping->inode)
			continue;
		fd = module_open(pid, &module);
		cr_expect_geq(fd, 0, "%s: %s", mapping->path, strerror(-fd));
		opened = true;
		close(fd);
	}
	cr_expect(opened);
	maps__free(maps);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void *map_file(const char *name)
{
	int fd = fixture_open(name);
	void *bytes = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	cr_assert_neq(bytes, MAP_FAILED);
	close(fd);
	return bytes;
}

static struct module_ref module_at(struct maps *maps, const void *address)
{
	const struct mapping *mapping = maps__find(maps, (uint64_t)address);
	struct module_ref *modules, found = {0};
	ssize_t count = maps__modules(maps, &modules);

	cr_assert_not_null(mapping);
	for (ssize_t i = 0; i < count; i++)
		if (modules[i].inode == mapping->inode &&
		    modules[i].dev_minor == mapping->dev_minor)
			found = modules[i];
	cr_assert_neq(found.inode, 0);
	free(modules);
	return found;
}

static void expect_content(int fd, const char *wanted)
{
	char text[16] = "";

	cr_assert_geq(read(fd, text, sizeof(text) - 1), 0);
	cr_expect_str_eq(text, wanted);
	close(fd);
}

/* A library that was upgraded while the process runs: the path names the new one. */
Test(modules, replaced_file)
{
	struct module_ref module;
	struct maps *maps;
	void *mapped;
	int fd;

	fixture_text("lib.so", "old");
	mapped = map_file("lib.so");
	fixture_text("new", "new");
	fixture_run("mv new lib.so");
	maps = maps__read(getpid());
	module = module_at(maps, mapped);
	cr_expect(module.deleted);
	cr_expect_str_eq(module.path, fixture_path("lib.so"));
	fd = module_open(getpid(), &module);
	if (fd == -ESTALE && geteuid() != 0)
		cr_skip("opening map_files takes CAP_CHECKPOINT_RESTORE");
	cr_assert_geq(fd, 0, "%s", strerror(-fd));
	expect_content(fd, "old");
	maps__free(maps);
}

Test(modules, by_path_when_the_mapping_moved)
{
	struct module_ref module;
	struct maps *maps;
	void *mapped;
	int fd;

	fixture_text("lib.so", "text");
	mapped = map_file("lib.so");
	maps = maps__read(getpid());
	module = module_at(maps, mapped);
	module.map_start += 4096;
	fd = module_open(getpid(), &module);
	cr_assert_geq(fd, 0, "%s", strerror(-fd));
	expect_content(fd, "text");
	module.inode++;
	cr_expect_eq(module_open(getpid(), &module), -ESTALE);
	maps__free(maps);
}

TestSuite(link_map, .init = fixture_set_up, .fini = fixture_tear_down);

static void build(const char *flags)
{
	fixture_text("p.c", PROGRAM_STAYS);
	fixture_text("l.c", "int l = 1;\n");
	fixture_run("cc -shared -fPIC -o first.so l.c && cc -shared -fPIC -o second.so l.c");
	fixture_run("cc %s -o p p.c", flags);
}

/* Base names in order, each followed by a space. The vDSO has no file. */
static void names_of(pid_t pid, char *text, size_t size)
{
	struct maps *maps = maps__read(pid);
	uint64_t *files;
	ssize_t count = link_map_read(pid, &files);
	size_t used = 0;

	cr_assert_not_null(maps);
	cr_assert_gt(count, 0, "%zd", count);
	text[0] = '\0';
	for (ssize_t i = 0; i < count; i++) {
		const struct mapping *mapping = maps__find(maps, files[i]);
		const char *slash = mapping ? strrchr(mapping->path, '/') : NULL;

		if (slash)
			used += (size_t)snprintf(text + used, size - used, "%s ", slash + 1);
	}
	free(files);
	maps__free(maps);
}

Test(link_map, executable_then_preloads_then_libraries)
{
	char names[512], preload[256];
	pid_t pid;

	build("-Wl,--no-as-needed -L. -l:second.so -Wl,-rpath,.");
	snprintf(preload, sizeof(preload), "%s", fixture_path("first.so"));
	cr_assert_eq(chdir(fixture_dir), 0);
	pid = program_start("./p", preload);
	names_of(pid, names, sizeof(names));
	cr_expect_str_eq(names, "p first.so second.so libc.so.6 ld-linux-x86-64.so.2 ", "%s",
			 names);
	program_stop(pid);
}

Test(link_map, fixed_addresses)
{
	char names[512];
	pid_t pid;

	build("-no-pie");
	pid = program_start(fixture_path("p"), NULL);
	names_of(pid, names, sizeof(names));
	cr_expect_eq(strncmp(names, "p libc.so", 9), 0, "%s", names);
	program_stop(pid);
}

Test(link_map, static_programs_have_none)
{
	uint64_t *files;
	pid_t pid;

	build("-static");
	pid = program_start(fixture_path("p"), NULL);
	cr_expect_eq(link_map_read(pid, &files), -ENOENT);
	cr_expect_null(files);
	program_stop(pid);
}

Test(link_map, static_programs_that_may_be_anywhere_are_alone)
{
	char names[512];
	pid_t pid;

	build("-static-pie");
	pid = program_start(fixture_path("p"), NULL);
	names_of(pid, names, sizeof(names));
	cr_expect_str_eq(names, "p ", "%s", names);
	program_stop(pid);
}

Test(link_map, nobody_there)
{
	uint64_t *files;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	cr_expect_eq(link_map_read(pid, &files), -ESRCH);
}

static void set_up(void)
{
	fixture_set_up();
	fixture_run("mkdir root && echo inside > root/file && echo outside > file && "
		    "ln -s /file root/absolute && ln -s ../file root/upwards && "
		    "mkfifo root/pipe && mkdir root/folder");
}

TestSuite(rootfs, .init = set_up, .fini = fixture_tear_down);

static void expect_text(const char *root, const char *path, const char *wanted)
{
	char text[16] = "";
	int fd = rootfs_open(root, path);

	cr_assert_geq(fd, 0, "%s: %s", path, strerror(-fd));
	cr_assert_geq(read(fd, text, sizeof(text) - 1), 0);
	cr_expect_str_eq(text, wanted, "%s", path);
	close(fd);
}

Test(rootfs, stays_inside)
{
	const char *root = fixture_path("root");

	expect_text(root, "/file", "inside\n");
	expect_text(root, "/absolute", "inside\n");
	expect_text(root, "/upwards", "inside\n");
	expect_text(root, "/../../file", "inside\n");
	expect_text("", fixture_path("root/upwards"), "outside\n");
}

Test(rootfs, regular_files_only, .timeout = 10)
{
	const char *root = fixture_path("root");

	cr_expect_eq(rootfs_open(root, "/pipe"), -EINVAL, "and does not wait for a writer");
	cr_expect_eq(rootfs_open(root, "/folder"), -EINVAL);
	cr_expect_eq(rootfs_open("", "/dev/null"), -EINVAL);
	cr_expect_eq(rootfs_open(root, "/nothing"), -ENOENT);
	cr_expect_eq(rootfs_open(fixture_path("nothing"), "/file"), -ENOENT);
}
