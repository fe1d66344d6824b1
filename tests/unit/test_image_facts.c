// SPDX-License-Identifier: BSD-2-Clause
#include "base/cache.h"
#include "base/hash.h"
#include "elf/image.h"
#include "proc/maps.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define READER 7

static char folder[64];

static void make_folder(void)
{
	strcpy(folder, "/tmp/perfx-facts-XXXXXX");
	cr_assert(mkdtemp(folder));
}

/* The path of the only file in the folder; "": there is none. */
static void only_file(char path[512])
{
	DIR *files = opendir(folder);
	struct dirent *entry;

	cr_assert(files);
	path[0] = '\0';
	while ((entry = readdir(files))) {
		if (entry->d_name[0] == '.')
			continue;
		cr_assert_eq(path[0], '\0', "more than one file");
		snprintf(path, 512, "%s/%s", folder, entry->d_name);
	}
	closedir(files);
}

static void remove_folder(void)
{
	DIR *files = opendir(folder);
	struct dirent *entry;

	cr_assert(files);
	while ((entry = readdir(files)))
		unlinkat(dirfd(files), entry->d_name, 0);
	closedir(files);
	rmdir(folder);
}

TestSuite(image_facts, .init = make_folder, .fini = remove_folder);

/* What an image has, as text, and how many names were offered to find it. */
struct found {
	char *text;
	size_t size, asked_count, questions_count;
};

static bool begins_with_str(const char *name, void *ctx)
{
	++*(size_t *)ctx;
	return !strncmp(name, "str", 3);
}

static bool count_and_say(struct image *image, void *ctx)
{
	(void)image;
	++*(size_t *)ctx;
	return true;
}

static int print_symbol(const struct symbol *symbol, void *ctx)
{
	fprintf(ctx, "%s %llx %llu %d\n", symbol->name, (unsigned long long)symbol->vaddr,
		(unsigned long long)symbol->size, symbol->ifunc);
	return 0;
}

/* Looks at the C library, which has some 3,000 symbols everywhere. folder NULL: keeps nothing. */
static struct found look(const char *kept_in, uint64_t reader_id)
{
	struct found found = {0};
	FILE *out = open_memstream(&found.text, &found.size);
	struct maps *maps = maps__read(getpid());
	const struct mapping *mapping = maps__find(maps, (uintptr_t)strdup);
	int fd = open(mapping->path, O_RDONLY | O_CLOEXEC);
	struct image *image = image__open(fd, mapping->path, "");
	const struct image_traits *traits;

	cr_assert(image);
	image__narrow(image, begins_with_str, &found.asked_count);
	if (kept_in)
		image__keep_facts(image, kept_in, reader_id);
	cr_assert_eq(image__each_function(image, print_symbol, out), 0);
	traits = image__traits(image);
	fprintf(out, "traits %d%d%d%d%d%d%d%d mentions %d\n", traits->dynamic, traits->needs_loader,
		traits->has_symtab, traits->has_except_table, traits->needs_cxx, traits->is_rust,
		traits->is_go, traits->switches_stacks, image__mentions(image, "GNU C Library"));
	cr_expect(image__answer(image, 1, count_and_say, &found.questions_count));
	cr_expect(image__answer(image, 1, count_and_say, &found.questions_count));
	fclose(out);
	image__free(image);
	close(fd);
	maps__free(maps);
	return found;
}

/* The same is found with the folder as without; were all names looked at for that? */
static bool searches_all(uint64_t reader_id)
{
	struct found plain = look(NULL, 0), kept = look(folder, reader_id);
	bool all = kept.asked_count >= plain.asked_count;

	cr_assert_gt(plain.asked_count, 1000);
	cr_expect_str_eq(kept.text, plain.text);
	cr_expect(strstr(plain.text, "strdup "));
	free(plain.text);
	free(kept.text);
	return all;
}

Test(image_facts, a_file_that_was_seen_is_not_searched_again)
{
	cr_expect(searches_all(READER));
	cr_expect_not(searches_all(READER));
}

Test(image_facts, a_question_is_asked_once_of_a_file)
{
	struct found first = look(folder, READER), again = look(folder, READER);

	cr_expect_eq(first.questions_count, 1);
	cr_expect_eq(again.questions_count, 0);
	free(first.text);
	free(again.text);
}

/* A copy of the vDSO, which has a dozen symbols, with a tail. */
struct copy {
	off_t tail_bytes;
	bool has_no_build_id, is_written_between;
};

/* How often a question is asked of it by two readers, one after the other. */
static size_t questions_of(struct copy copy)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct maps *maps = maps__read(getpid());
	const struct mapping *mapping = maps__find(maps, (uintptr_t)vdso);
	size_t bytes_count = mapping->end - mapping->start, questions_count = 0;
	char path[] = "/tmp/perfx-vdso-XXXXXX", *bytes = malloc(bytes_count), *note;
	int fd = mkstemp(path);

	cr_assert(bytes);
	memcpy(bytes, vdso, bytes_count);
	while (copy.has_no_build_id && (note = memmem(bytes, bytes_count, "GNU", 4)))
		*note = 'g';
	cr_assert_eq(write(fd, bytes, bytes_count), (ssize_t)bytes_count);
	cr_assert_eq(ftruncate(fd, (off_t)bytes_count + copy.tail_bytes), 0);
	for (int i = 0; i < 2; i++) {
		struct image *image = image__open(fd, path, "");

		cr_assert_eq(image__build_id(image)[0] == '\0', copy.has_no_build_id);
		image__keep_facts(image, folder, READER);
		cr_expect(image__answer(image, 1, count_and_say, &questions_count));
		image__free(image);
		if (!copy.is_written_between)
			continue;
		/* the clock of file systems is a coarse one */
		usleep(20000);
		cr_assert_eq(pwrite(fd, bytes, 1, 0), 1);
	}
	close(fd);
	unlink(path);
	maps__free(maps);
	free(bytes);
	return questions_count;
}

Test(image_facts, what_is_kept_of_a_file_with_few_symbols_depends_on_its_size)
{
	cr_expect_eq(questions_of((struct copy){.tail_bytes = 0}), 2);
	cr_expect_eq(questions_of((struct copy){.tail_bytes = 1 << 20}), 1);
}

Test(image_facts, a_file_without_build_id_is_known_until_it_is_written)
{
	cr_expect_eq(questions_of((struct copy){.tail_bytes = 1 << 20, .has_no_build_id = true}),
		     1);
}

Test(image_facts, a_file_without_build_id_that_was_written_is_another_one)
{
	cr_expect_eq(questions_of((struct copy){1 << 20, true, true}), 2);
}

/* Reads, changes and writes the file. */
static void change(size_t at, unsigned char mask, bool fix_checksum)
{
	char path[512];
	size_t size;
	unsigned char *data;
	uint64_t checksum;

	only_file(path);
	data = cache_load(path, 1 << 20, &size);
	cr_assert(data);
	data[at % size] ^= mask;
	checksum = fnv1a(data + 16, size - 16);
	if (fix_checksum)
		memcpy(data + 8, &checksum, sizeof(checksum));
	cr_assert_eq(cache_store(path, data, size), 0);
	free(data);
}

/* A changed bit anywhere makes the file void; the next search replaces it. */
Test(image_facts, a_damaged_file_is_ignored)
{
	searches_all(READER);
	for (size_t at = 0; at < 400; at += 7) {
		change(at, 4, false);
		cr_expect(searches_all(READER), "at %zu", at);
		cr_expect_not(searches_all(READER), "at %zu", at);
	}
}

/* A file that was made to be wrong: other symbols, with a checksum that fits. */
Test(image_facts, symbols_that_are_not_wanted_make_it_void)
{
	struct stat status;
	char path[512];

	searches_all(READER);
	only_file(path);
	cr_assert_eq(stat(path, &status), 0);
	/* of the last symbol: 8 bytes of address, 4 of number, 2 of table, 2 of label */
	for (size_t back = 1; back <= 16; back++) {
		change((size_t)status.st_size - back, 1, true);
		cr_expect(searches_all(READER), "%zu", back);
	}
}

Test(image_facts, a_cut_file_is_ignored)
{
	char path[512];

	for (off_t size = 0; size < 200; size += 50) {
		searches_all(READER);
		only_file(path);
		cr_assert_eq(truncate(path, size), 0);
		cr_expect(searches_all(READER));
	}
}

Test(image_facts, what_others_could_have_written_is_ignored)
{
	char path[512], elsewhere[600];

	searches_all(READER);
	only_file(path);
	cr_assert_eq(chmod(path, 0666), 0);
	cr_expect(searches_all(READER));
	cr_expect_not(searches_all(READER));
	cr_assert_eq(chmod(folder, 0777), 0);
	cr_expect(searches_all(READER));
	cr_assert_eq(chmod(folder, 0755), 0);
	cr_expect_not(searches_all(READER));
	/* a link to a file that is as it should be */
	snprintf(elsewhere, sizeof(elsewhere), "%s.moved", folder);
	only_file(path);
	cr_assert_eq(rename(path, elsewhere), 0);
	cr_assert_eq(symlink(elsewhere, path), 0);
	cr_expect(searches_all(READER));
	cr_expect_not(searches_all(READER), "the link was replaced");
	unlink(elsewhere);
}

/* Findings of another program, or of one that wants other names, are not for this one. */
Test(image_facts, findings_belong_to_one_reader)
{
	char path[512];

	searches_all(READER);
	only_file(path);
	unlink(path);
	searches_all(READER + 1);
	cr_expect_not(searches_all(READER + 1));
	only_file(path);
	cr_assert_eq(cache_store("/tmp/perfx-facts-empty", "", 0), 0);
	unlink("/tmp/perfx-facts-empty");
	unlink(path);
	cr_expect(searches_all(READER));
}

Test(image_facts, a_folder_that_is_full_loses_the_oldest_file)
{
	/* the names are in another order than the times; directories may list them in any */
	static const time_t times[] = {300, 100, 200};
	char paths[3][512];

	for (int i = 0; i < 3; i++) {
		struct timespec at[2] = {{.tv_sec = times[i]}, {.tv_sec = times[i]}};

		snprintf(paths[i], sizeof(paths[i]), "%s/%d", folder, i);
		cr_assert_eq(cache_store(paths[i], "x", 1), 0);
		cr_assert_eq(utimensat(AT_FDCWD, paths[i], at, 0), 0);
	}
	cache_bound(folder, 4);
	cr_expect_eq(access(paths[1], F_OK), 0, "there is room");
	cache_bound(folder, 3);
	cr_expect_eq(access(paths[0], F_OK), 0);
	cr_expect_neq(access(paths[1], F_OK), 0);
	cr_expect_eq(access(paths[2], F_OK), 0);
	cache_bound(folder, 2);
	cr_expect_neq(access(paths[2], F_OK), 0);
	cr_expect_eq(access(paths[0], F_OK), 0);
	unlink(paths[0]);
}
