// SPDX-License-Identifier: BSD-2-Clause
#include "elf/elf_view.h"

#include "base/order.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The bytes of a file, mapped: of a library of 400 MB only the pages that are accessed are read.
 *
 * The file may be truncated meanwhile (a package upgrade, a linker that writes it anew), and an
 * access behind its end raises SIGBUS. The handler maps zeros over the rest of the file: from then
 * on it is a damaged file like any other, which the reader expects.
 */

/* A mapping. The signal handler reads the list without a lock, so nodes are never freed; those of
 * unmapped files (end 0) are reused. */
struct mapping_node {
	_Atomic(uintptr_t) start, end;
	struct mapping_node *next;
};

static _Atomic(struct mapping_node *) mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held to map and to unmap */

static struct mapping_node *mapping_at(uintptr_t address)
{
	struct mapping_node *node = atomic_load(&mappings);

	while (node && (address < node->start || address >= node->end))
		node = node->next;
	return node;
}

/* Maps zeros from the missing page up to the end. */
static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	struct mapping_node *node = mapping_at(page);
	int err = errno;

	(void)context;
	/* not our mapping, or no memory: the access fails again and ends the program */
	if (!node || mmap((void *)page, node->end - page, PROT_READ,
			  MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		(void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	errno = err;
}

static void install_handler(void)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &action, NULL);
}

/* Whole pages, and a byte more at least. */
static size_t mapped_size(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size / page + 1) * page;
}

/* Maps size bytes from the file's start and a zero behind them: then no string runs past the end
 * however the file changes. NULL with errno. */
static const void *file_map(int fd, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t whole = mapped_size(size);
	void *bytes = mmap(NULL, whole, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mapping_node *node;

	if (bytes == MAP_FAILED)
		return NULL;
	/* MAP_SHARED: into private mappings of a file the kernel writes the breakpoints of the
	 * tracer that traces it */
	if (mmap(bytes, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(bytes, whole);
		return NULL;
	}
	pthread_once(&once, install_handler);
	pthread_mutex_lock(&lock);
	node = atomic_load(&mappings);
	while (node && node->end)
		node = node->next;
	if (!node && (node = calloc(1, sizeof(*node)))) {
		node->next = atomic_load(&mappings);
		atomic_store(&mappings, node);
	}
	if (node) {
		atomic_store(&node->start, (uintptr_t)bytes);
		atomic_store(&node->end, (uintptr_t)bytes + whole);
	}
	pthread_mutex_unlock(&lock);
	if (node)
		return bytes;
	munmap(bytes, whole);
	errno = ENOMEM;
	return NULL;
}

void elf_view__release(const uint8_t *bytes, size_t size)
{
	uintptr_t begin = (uintptr_t)bytes & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

	madvise((void *)begin, size + ((uintptr_t)bytes - begin), MADV_DONTNEED);
}

void elf_view__release_pages(const struct elf_view *view)
{
	if (view->bytes)
		elf_view__release(view->bytes, mapped_size(view->size));
}

#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#else
#define HOST_MACHINE EM_NONE
#endif

const uint8_t *elf_view__bytes(const struct elf_view *view, uint64_t offset, uint64_t size)
{
	if (offset > view->size || size > view->size - offset)
		return NULL;
	return view->bytes + offset;
}

static bool read_record(const struct elf_view *view, uint64_t table, size_t index, void *record,
			size_t size)
{
	const uint8_t *bytes;
	uint64_t offset;

	if (__builtin_add_overflow(table, (uint64_t)index * size, &offset))
		return false;
	bytes = elf_view__bytes(view, offset, size);
	if (!bytes)
		return false;
	memcpy(record, bytes, size);
	return true;
}

bool elf_view__phdr(const struct elf_view *view, size_t index, Elf64_Phdr *phdr)
{
	return index < view->phnum &&
	       read_record(view, view->ehdr.e_phoff, index, phdr, sizeof(*phdr));
}

bool elf_view__shdr(const struct elf_view *view, size_t index, Elf64_Shdr *shdr)
{
	return index < view->shnum &&
	       read_record(view, view->ehdr.e_shoff, index, shdr, sizeof(*shdr));
}

struct elf_strings elf_view__strings(const struct elf_view *view, size_t index)
{
	struct elf_strings strings = {NULL, 0};
	const uint8_t *bytes, *last;
	Elf64_Shdr shdr;

	if (!elf_view__shdr(view, index, &shdr) || shdr.sh_type != SHT_STRTAB)
		return strings;
	bytes = elf_view__bytes(view, shdr.sh_offset, shdr.sh_size);
	/* cut behind the last NUL, so that whatever starts inside also ends inside */
	last = bytes ? memrchr(bytes, 0, shdr.sh_size) : NULL;
	if (last) {
		strings.text = (const char *)bytes;
		strings.size = (size_t)(last - bytes) + 1;
	}
	return strings;
}

const char *elf_strings__at(const struct elf_strings *strings, uint64_t offset)
{
	return offset < strings->size ? strings->text + offset : "";
}

bool elf_view__section(const struct elf_view *view, const char *name, Elf64_Shdr *shdr,
		       const uint8_t **bytes)
{
	for (size_t i = 1; elf_view__shdr(view, i, shdr); i++) {
		if (strcmp(elf_strings__at(&view->section_names, shdr->sh_name), name) != 0)
			continue;
		if (shdr->sh_type == SHT_NOBITS)
			return false; /* in a separate debug file: only the header is left */
		*bytes = elf_view__bytes(view, shdr->sh_offset, shdr->sh_size);
		return *bytes != NULL;
	}
	return false;
}

bool elf_view__section_of_type(const struct elf_view *view, uint32_t type, Elf64_Shdr *shdr)
{
	for (size_t i = 1; elf_view__shdr(view, i, shdr); i++)
		if (shdr->sh_type == type)
			return true;
	return false;
}

/* More than 65,279 sections or 65,535 segments do not fit the header: section 0 has the numbers. */
static void read_counts(struct elf_view *view)
{
	size_t names = view->ehdr.e_shstrndx;
	Elf64_Shdr first = {0};

	view->phnum = view->ehdr.e_phnum;
	view->shnum = view->ehdr.e_shoff ? 1 : 0;
	if (elf_view__shdr(view, 0, &first) && view->ehdr.e_phnum == PN_XNUM)
		view->phnum = first.sh_info;
	if (names == SHN_XINDEX)
		names = first.sh_link;
	if (view->shnum)
		view->shnum = view->ehdr.e_shnum ? view->ehdr.e_shnum : first.sh_size;
	view->section_names = elf_view__strings(view, names);
}

/* A 32-bit file, which may be shorter than the 64-bit header, is -ENOTSUP too. */
static int read_header(struct elf_view *view)
{
	size_t size = min_u64(view->size, sizeof(view->ehdr));
	Elf64_Ehdr *ehdr = &view->ehdr;

	if (size < EI_NIDENT)
		return -ENOEXEC;
	memset(ehdr, 0, sizeof(*ehdr));
	memcpy(ehdr, view->bytes, size);
	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 || ehdr->e_ident[EI_VERSION] != EV_CURRENT)
		return -ENOEXEC;
	if (ehdr->e_ident[EI_CLASS] == ELFCLASS32 || ehdr->e_ident[EI_DATA] == ELFDATA2MSB)
		return -ENOTSUP;
	if (ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	if (ehdr->e_machine != HOST_MACHINE)
		return -ENOTSUP;
	if ((ehdr->e_type != ET_EXEC && ehdr->e_type != ET_DYN) ||
	    (ehdr->e_phnum && ehdr->e_phentsize != sizeof(Elf64_Phdr)) ||
	    (ehdr->e_shoff && ehdr->e_shentsize != sizeof(Elf64_Shdr)) || size < sizeof(*ehdr))
		return -ENOEXEC;
	return 0;
}

int elf_view__map(struct elf_view *view, int fd)
{
	struct stat status;
	off_t size;
	int err;

	/* FUSE lets root read a file that its user has opened, and not its status */
	if (fstat(fd, &status) == 0) {
		size = S_ISREG(status.st_mode) ? status.st_size : 0;
	} else {
		size = lseek(fd, 0, SEEK_END);
		if (size < 0)
			return -errno;
	}
	if (size < EI_NIDENT)
		return -ENOEXEC;
	view->bytes = file_map(fd, (size_t)size);
	if (!view->bytes)
		return -errno;
	view->size = (size_t)size;
	err = read_header(view);
	if (err) {
		elf_view__unmap(view);
		return err;
	}
	read_counts(view);
	return 0;
}

void elf_view__unmap(struct elf_view *view)
{
	struct mapping_node *node;

	if (view->bytes) {
		pthread_mutex_lock(&lock);
		node = mapping_at((uintptr_t)view->bytes);
		if (node)
			atomic_store(&node->end, 0);
		pthread_mutex_unlock(&lock);
		munmap((void *)view->bytes, mapped_size(view->size));
	}
	memset(view, 0, sizeof(*view));
}

static size_t align_up(size_t value, size_t align)
{
	return (value + align - 1) & ~(align - 1);
}

bool elf_note__next(const uint8_t *bytes, size_t size, size_t align, size_t *position,
		    struct elf_note *note)
{
	size_t at = *position, desc;
	Elf64_Nhdr header;

	align = align == 8 ? 8 : 4;
	if (at > size || size - at < sizeof(header))
		return false;
	memcpy(&header, bytes + at, sizeof(header));
	at += sizeof(header);
	if (header.n_namesz > size - at)
		return false;
	desc = align_up(at + header.n_namesz, align);
	if (desc > size || header.n_descsz > size - desc)
		return false;
	*note = (struct elf_note){.type = header.n_type,
				  .name = (const char *)bytes + at,
				  .name_size = header.n_namesz,
				  .desc = bytes + desc,
				  .desc_size = header.n_descsz};
	*position = align_up(desc + header.n_descsz, align);
	return true;
}

bool elf_note__is(const struct elf_note *note, const char *name, uint32_t type)
{
	size_t size = strlen(name) + 1;

	return note->type == type && note->name_size == size && memcmp(note->name, name, size) == 0;
}
