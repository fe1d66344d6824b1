// SPDX-License-Identifier: BSD-2-Clause
/* An image: its segments, its separate debug file, its traits. */
#include "elf/image.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/text.h"
#include "elf/demangle.h"
#include "elf/image_internal.h"
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <libiberty/demangle.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* A hostile file must not make each search of .dynamic long. */
#define DYNAMIC_ENTRIES_MAX 256

static int read_segments(struct image *image)
{
	Elf64_Phdr phdr;
	uint64_t end;

	for (size_t i = 0; elf_view__phdr(&image->file, i, &phdr); i++) {
		struct segment segment = {.vaddr = phdr.p_vaddr,
					  .offset = phdr.p_offset,
					  .executable = phdr.p_flags & PF_X};

		if (phdr.p_type == PT_DYNAMIC) {
			image->dynamic =
				elf_view__bytes(&image->file, phdr.p_offset, phdr.p_filesz);
			image->dynamic_count =
				min_u64(phdr.p_filesz / sizeof(Elf64_Dyn), DYNAMIC_ENTRIES_MAX);
		}
		if (phdr.p_type != PT_LOAD || segment.offset >= image->file.size || !phdr.p_filesz)
			continue;
		segment.size = min_u64(phdr.p_filesz, image->file.size - segment.offset);
		if (__builtin_add_overflow(segment.vaddr, segment.size, &end))
			continue;
		if (LIST_ADD(image->segments, segment))
			return -ENOMEM;
	}
	return image->segments_count ? 0 : -ENOEXEC;
}

const struct segment *image__segment(const struct image *image, uint64_t vaddr)
{
	FOR_EACH (segment, image->segments)
		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->size)
			return segment;
	return NULL;
}

const uint8_t *image__data(const struct image *image, uint64_t vaddr, size_t *available)
{
	const struct segment *segment = image__segment(image, vaddr);

	if (!segment)
		return NULL;
	*available = segment->size - (vaddr - segment->vaddr);
	return image->file.bytes + segment->offset + (vaddr - segment->vaddr);
}

const uint8_t *image__code(const struct image *image, uint64_t vaddr, size_t *available)
{
	const struct segment *segment = image__segment(image, vaddr);

	return segment && segment->executable ? image__data(image, vaddr, available) : NULL;
}

const uint8_t *image__code_segment(const struct image *image, size_t index, uint64_t *vaddr,
				   size_t *size)
{
	FOR_EACH (segment, image->segments) {
		if (!segment->executable || index--)
			continue;
		*vaddr = segment->vaddr;
		return image__data(image, segment->vaddr, size);
	}
	return NULL;
}

int64_t image__offset(const struct image *image, uint64_t vaddr)
{
	const struct segment *segment = image__segment(image, vaddr);

	return segment ? (int64_t)(segment->offset + (vaddr - segment->vaddr)) : -1;
}

/* Neighbouring segments often share a page of the file; code is what addresses seen in a process
 * are asked for, so the executable one wins. */
int64_t image__vaddr(const struct image *image, uint64_t offset)
{
	const struct segment *found = NULL;

	FOR_EACH (segment, image->segments) {
		if (offset < segment->offset || offset - segment->offset >= segment->size)
			continue;
		if (!found || (segment->executable && !found->executable))
			found = segment;
	}
	return found ? (int64_t)(found->vaddr + (offset - found->offset)) : -1;
}

/* The kernel maps whole pages: a segment may begin later in the first, where another one ends. */
bool image__bias(const struct image *image, uint64_t start, uint64_t file_offset, uint64_t *bias)
{
	const uint64_t in_page = 4095;

	FOR_EACH (segment, image->segments) {
		if (!segment->executable || file_offset < (segment->offset & ~in_page) ||
		    file_offset >= segment->offset + segment->size)
			continue;
		*bias = start - file_offset + segment->offset - segment->vaddr;
		return true;
	}
	return false;
}

/* Notes read per file: 65,000 overlapping sections can list the same notes again and again. */
enum { NOTES_MAX = 100000 };

static bool build_id_in(const uint8_t *bytes, size_t size, size_t align, char *hex, size_t hex_size,
			size_t *notes_count)
{
	struct elf_note note;
	size_t position = 0;

	while ((*notes_count)++ < NOTES_MAX &&
	       elf_note__next(bytes, size, align, &position, &note)) {
		if (!elf_note__is(&note, "GNU", NT_GNU_BUILD_ID) || !note.desc_size ||
		    2 * note.desc_size >= hex_size)
			continue;
		for (size_t i = 0; i < note.desc_size; i++)
			snprintf(hex + 2 * i, 3, "%02x", note.desc[i]);
		return true;
	}
	return false;
}

static void read_build_id(const struct elf_view *view, char *hex, size_t hex_size)
{
	const uint8_t *bytes;
	size_t notes_count = 0;
	Elf64_Phdr phdr;
	Elf64_Shdr shdr;

	hex[0] = '\0';
	/* sections first: the segments of a separate debug file point at nothing */
	for (size_t i = 1; elf_view__shdr(view, i, &shdr); i++) {
		bytes = elf_view__bytes(view, shdr.sh_offset, shdr.sh_size);
		if (shdr.sh_type == SHT_NOTE && bytes &&
		    build_id_in(bytes, shdr.sh_size, shdr.sh_addralign, hex, hex_size,
				&notes_count))
			return;
	}
	for (size_t i = 0; !view->shnum && elf_view__phdr(view, i, &phdr); i++) {
		bytes = elf_view__bytes(view, phdr.p_offset, phdr.p_filesz);
		if (phdr.p_type == PT_NOTE && bytes &&
		    build_id_in(bytes, phdr.p_filesz, phdr.p_align, hex, hex_size, &notes_count))
			return;
	}
}

/*
 * Separate debug files, as gdb looks for them ("Debugging Information in Separate Files"): by
 * build-id under /usr/lib/debug/.build-id, then by .gnu_debuglink beside the file, in .debug/
 * beside it, and under /usr/lib/debug; all of it inside the target's own root.
 */

#define BUILD_ID_PATH "/usr/lib/debug/.build-id/%.2s/%s.debug"

/* The CRC needs the whole file, and a sparse file can have terabytes. */
#define CRC_BYTES_MAX (UINT64_C(4) << 30)

static void drop_debug(struct image *image)
{
	elf_view__unmap(&image->debug);
	if (image->debug_fd >= 0)
		close(image->debug_fd);
	image->debug_fd = -1;
}

/* crc NULL: the build-id decides. */
static bool try_file(struct image *image, const char *path, const uint32_t *crc)
{
	char build_id[sizeof(image->build_id)];
	int fd = rootfs_open(image->root, path);
	Elf64_Shdr shdr;
	bool fits;

	if (fd < 0)
		return false;
	if (elf_view__map(&image->debug, fd)) {
		close(fd);
		return false;
	}
	image->debug_fd = fd;
	read_build_id(&image->debug, build_id, sizeof(build_id));
	fits = elf_view__section_of_type(&image->debug, SHT_SYMTAB, &shdr);
	if (crc)
		fits = fits && image->debug.size <= CRC_BYTES_MAX &&
		       crc32_z(0, image->debug.bytes, image->debug.size) == (*crc);
	else
		fits = fits && strcmp(build_id, image->build_id) == 0;
	if (!fits)
		drop_debug(image);
	return fits;
}

/* .gnu_debuglink: a file name, padded to four bytes, and the CRC-32 of that file. */
static bool try_debuglink(struct image *image)
{
	static const char *const places[][2] = {{"", ""}, {"", ".debug/"}, {"/usr/lib/debug", ""}};
	const char *slash = strrchr(image->path, '/'), *name;
	bool found = false;
	const uint8_t *bytes;
	Elf64_Shdr shdr;
	uint32_t crc;
	size_t size;

	if (!slash || !elf_view__section(&image->file, ".gnu_debuglink", &shdr, &bytes) ||
	    !memchr(bytes, 0, shdr.sh_size))
		return false;
	name = (const char *)bytes;
	size = (strlen(name) + 4) & ~(size_t)3;
	if (size + sizeof(crc) > shdr.sh_size || !*name || strchr(name, '/'))
		return false;
	memcpy(&crc, bytes + size, sizeof(crc));
	for (size_t i = 0; !found && i < sizeof(places) / sizeof(*places); i++) {
		char *path = NULL;

		if (asprintf(&path, "%s%.*s/%s%s", places[i][0], (int)(slash - image->path),
			     image->path, places[i][1], name) < 0)
			return false;
		found = try_file(image, path, &crc);
		free(path);
	}
	return found;
}

/*
 * MiniDebugInfo (gdb manual): .gnu_debugdata is an ELF file, compressed by xz, whose .symtab has
 * the functions that .dynsym lacks. The systems of the Fedora family ship their programs so.
 */

/* An xz file of a few bytes can grow without end. Fedora's largest have some 30 MiB, and xz -9
 * needs 65 MiB of memory. */
#define MINI_BYTES_MAX	(128u << 20)
#define XZ_MEMORY_BYTES (80u << 20)

static bool unpack_xz(const uint8_t *bytes, size_t size, int fd)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	lzma_ret state = lzma_stream_decoder(&stream, XZ_MEMORY_BYTES, 0);
	uint8_t chunk[64 << 10];

	stream.next_in = bytes;
	stream.avail_in = size;
	while (state == LZMA_OK && stream.total_out <= MINI_BYTES_MAX) {
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		state = lzma_code(&stream, LZMA_FINISH);
		size = sizeof(chunk) - stream.avail_out;
		if (write(fd, chunk, size) != (ssize_t)size)
			break;
	}
	lzma_end(&stream);
	return state == LZMA_STREAM_END && stream.total_out <= MINI_BYTES_MAX;
}

void image__add_mini(struct image *image)
{
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	FOR_EACH (table, image->tables)
		image->mini_read |= table->origin != SYMBOL_DYNSYM;
	if (image->mini_read || image->debug.bytes ||
	    !elf_view__section(&image->file, ".gnu_debugdata", &shdr, &bytes))
		return;
	image->mini_read = true;
	image->debug_fd = memfd_create("gnu_debugdata", MFD_CLOEXEC);
	if (image->debug_fd < 0 || !unpack_xz(bytes, shdr.sh_size, image->debug_fd) ||
	    elf_view__map(&image->debug, image->debug_fd))
		drop_debug(image);
	else
		image__add_table(image, &image->debug, SHT_SYMTAB, SYMBOL_DEBUG);
}

static bool open_debug(struct image *image)
{
	char path[sizeof(image->build_id) + sizeof(BUILD_ID_PATH)];

	snprintf(path, sizeof(path), BUILD_ID_PATH, image->build_id, image->build_id + 2);
	return (strlen(image->build_id) >= 4 && try_file(image, path, NULL)) ||
	       try_debuglink(image);
}

static bool has_dwarf(const struct elf_view *view)
{
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	return elf_view__section(view, ".debug_info", &shdr, &bytes) ||
	       elf_view__section(view, ".zdebug_info", &shdr, &bytes);
}

/* By libelf, for dwz's files are neither programs nor libraries. */
static bool has_build_id(int fd, const uint8_t *id, size_t id_size)
{
	Elf *elf;
	const void *found;
	bool same;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	same = elf && dwelf_elf_gnu_build_id(elf, &found) == (ssize_t)id_size &&
	       memcmp(found, id, id_size) == 0;
	elf_end(elf);
	return same;
}

/* .gnu_debugaltlink: a path and, behind its NUL, the build-id of that file (dwz -m). libdw would
 * open whatever the path says, from our root; so it is opened here. */
static int open_alt(const struct image *image, const uint8_t *bytes, size_t size)
{
	size_t path_size = strnlen((const char *)bytes, size) + 1;
	const uint8_t *id = bytes + path_size;
	size_t id_size = size > path_size ? size - path_size : 0;
	char path[sizeof(image->build_id) + sizeof(BUILD_ID_PATH)], hex[sizeof(image->build_id)];
	int fd;

	if (id_size < 2 || 2 * id_size >= sizeof(hex))
		return -ENOENT;
	for (size_t i = 0; i < id_size; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	snprintf(path, sizeof(path), BUILD_ID_PATH, hex, hex + 2);
	fd = rootfs_open(image->root, path);
	if (fd < 0 && bytes[0] == '/')
		fd = rootfs_open(image->root, (const char *)bytes);
	if (fd >= 0 && !has_build_id(fd, id, id_size)) {
		close(fd);
		fd = -ENOENT;
	}
	return fd;
}

bool image__has_dwarf(struct image *image)
{
	return has_dwarf(&image->file) ||
	       ((image->debug.bytes || open_debug(image)) && has_dwarf(&image->debug));
}

int image__debug_info(struct image *image, int *fd, int *alt_fd)
{
	bool own = has_dwarf(&image->file);
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	if (!image__has_dwarf(image))
		return -ENOENT;
	*fd = own ? image->fd : image->debug_fd;
	*alt_fd = -1;
	if (!elf_view__section(own ? &image->file : &image->debug, ".gnu_debugaltlink", &shdr,
			       &bytes))
		return 0;
	if (image->alt_fd < 0)
		image->alt_fd = open_alt(image, bytes, shdr.sh_size);
	*alt_fd = image->alt_fd;
	return image->alt_fd < 0 ? -ENOENT : 0;
}

static int image_load(struct image *image, int fd, const char *path, const char *root)
{
	int err;

	image->path = strdup(path ? path : "");
	image->root = strdup(root ? root : "");
	if (!image->path || !image->root)
		return -ENOMEM;
	image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (image->fd < 0)
		return -errno;
	err = elf_view__map(&image->file, image->fd) ?: read_segments(image);
	if (err)
		return err;
	read_build_id(&image->file, image->build_id, sizeof(image->build_id));
	image__add_table(image, &image->file, SHT_SYMTAB, SYMBOL_SYMTAB);
	if (!image->tables_count && open_debug(image))
		image__add_table(image, &image->debug, SHT_SYMTAB, SYMBOL_DEBUG);
	if (!image->tables_count)
		image__add_go(image);
	image__add_table(image, &image->file, SHT_DYNSYM, SYMBOL_DYNSYM);
	return 0;
}

struct image *image__open(int fd, const char *path, const char *root)
{
	struct image *image = calloc(1, sizeof(*image));
	int err;

	if (!image)
		return NULL;
	image->fd = image->debug_fd = image->alt_fd = -1;
	err = image_load(image, fd, path, root);
	if (err) {
		image__free(image);
		errno = -err;
		return NULL;
	}
	return image;
}

void image__release_pages(const struct image *image)
{
	elf_view__release_pages(&image->file);
	elf_view__release_pages(&image->debug);
}

/* The kernel maps up to 64 KiB around a page that is read. Where few names are read they lie far
 * apart, so the memory of their pages is bounded by page faults, not by symbols: some 10 MiB. */
#define FAULTS_MAX	  128
#define SYMBOLS_PER_CHECK 64

void image__limit_pages(struct image *image)
{
	struct rusage usage;
	long faults;

	if (image->symbols_read++ % SYMBOLS_PER_CHECK || getrusage(RUSAGE_THREAD, &usage))
		return;
	faults = usage.ru_minflt + usage.ru_majflt;
	/* less: of another thread */
	if (faults >= image->faults_at_release && faults - image->faults_at_release < FAULTS_MAX)
		return;
	image__release_pages(image);
	image->faults_at_release = faults;
}

uint64_t image__entry_point(const struct image *image)
{
	return image->file.ehdr.e_entry;
}

const char *image__build_id(const struct image *image)
{
	return image->build_id;
}

void image__free(struct image *image)
{
	if (!image)
		return;
	image__forget_facts(image);
	image__forget_annotations(image);
	image__forget_frames(image);
	image__forget_symbols(image);
	drop_debug(image);
	if (image->alt_fd >= 0)
		close(image->alt_fd);
	elf_view__unmap(&image->file);
	free(image->go_symbols);
	free(image->segments);
	free(image->path);
	free(image->root);
	if (image->fd >= 0)
		close(image->fd);
	free(image);
}

/*
 * What may unwind through a file's frames, or leave them by another stack. A wrong "no" can kill
 * the traced program (a return probe under an exception), a wrong "yes" only costs a cheaper way
 * of timing: in doubt, yes.
 */

/* The legacy form, _ZN…17h<hash>E, is a valid C++ name too. */
static bool is_rust_name(const char *name)
{
	size_t length = strlen(name);
	char *text = NULL;

	if (name[1] == 'R' || (length > 24 && memcmp(name + length - 20, "17h", 3) == 0))
		text = rust_demangle(name, 0);
	free(text);
	return text != NULL;
}

struct symbol_scan {
	struct image_traits *traits;
	const struct symbol_table *table;
};

static int note_symbol(void *ctx, const Elf64_Sym *sym, size_t number)
{
	/* libc exports these for others; a file that calls them has more stacks than threads. */
	static const char *const context_calls[] = {"swapcontext", "makecontext", "setcontext",
						    NULL};
	/* Switches that carry no name are found by their code (user/site). */
	static const char *const coroutine_switches[] = {
		/* Boost.Context (folly and others bring copies), brpc, libco (both) */
		"jump_fcontext", "ontop_fcontext", "make_fcontext", "co_switch",
		"bthread_jump_fcontext", "coctx_swap",
		/* libaco, libcoro, minicoro, marl, tbox, libtask, QEMU, greenlet */
		"acosw", "coro_transfer", "_mco_switch", "mco_resume", "marl_fiber_swap",
		"tb_context_jump", "taskswitch", "qemu_coroutine_switch", "slp_switch",
		"_ZL10slp_switchv", NULL};
	const struct symbol_scan *scan = ctx;
	struct image_traits *traits = scan->traits;
	const char *name = elf_strings__at(&scan->table->names, sym->st_name);
	bool defined = sym->st_shndx != SHN_UNDEF;
	bool used = !defined || !traits->dynamic; /* a static file holds only what is used */

	(void)number;
	if (demangle_applies(name) && name[2] != 'L') { /* most of a big library: be quick */
		if (defined && !traits->is_rust && !traits->has_except_table)
			traits->is_rust = is_rust_name(name);
		return 0;
	}
	if (defined && strcmp(name, "__gxx_personality_v0") == 0)
		traits->needs_cxx = true;
	if (defined && strcmp(name, "rust_eh_personality") == 0)
		traits->is_rust = true;
	if (text_is_one_of(name, coroutine_switches) ||
	    (used && text_is_one_of(name, context_calls)))
		traits->switches_stacks = true;
	return 0;
}

static void note_sections(const struct elf_view *file, struct image_traits *traits)
{
	Elf64_Shdr shdr;

	for (size_t i = 1; elf_view__shdr(file, i, &shdr); i++) {
		const char *name = elf_strings__at(&file->section_names, shdr.sh_name);

		if (begins_with(name, ".gcc_except_table"))
			traits->has_except_table = true;
		if (strcmp(name, ".gopclntab") == 0 ||
		    strcmp(name, ".data.rel.ro.gopclntab") == 0 ||
		    strcmp(name, ".note.go.buildid") == 0)
			traits->is_go = true;
	}
	if (file->shnum < 2 || !file->section_names.size)
		traits->has_except_table = true; /* not known */
}

bool image__dynamic(const struct image *image, size_t index, int64_t *tag, uint64_t *value)
{
	Elf64_Dyn entry;

	if (!image->dynamic || index >= image->dynamic_count)
		return false;
	memcpy(&entry, image->dynamic + index * sizeof(entry), sizeof(entry));
	*tag = entry.d_tag;
	*value = entry.d_un.d_val;
	return entry.d_tag != DT_NULL;
}

/* The first string of a tag from entry *index on, which moves behind it; NULL: there is none. */
static const char *dynamic_string(const struct image *image, size_t *index, int64_t wanted)
{
	uint64_t strings = 0, value;
	int64_t tag;

	for (size_t i = 0; image__dynamic(image, i, &tag, &value); i++)
		if (tag == DT_STRTAB)
			strings = value;
	while (image__dynamic(image, (*index)++, &tag, &value)) {
		size_t room;
		const char *text;

		if (tag != wanted)
			continue;
		text = (const char *)image__data(image, strings + value, &room);
		if (text && memchr(text, 0, room))
			return text;
	}
	return NULL;
}

const char *image__soname(const struct image *image)
{
	size_t index = 0;

	return dynamic_string(image, &index, DT_SONAME) ?: "";
}

static void note_segments(const struct image *image, struct image_traits *traits)
{
	const char *name;
	size_t index = 0;
	Elf64_Phdr phdr;

	for (size_t i = 0; elf_view__phdr(&image->file, i, &phdr); i++) {
		traits->dynamic |= phdr.p_type == PT_INTERP || phdr.p_type == PT_DYNAMIC;
		traits->needs_loader |= phdr.p_type == PT_INTERP;
	}
	while ((name = dynamic_string(image, &index, DT_NEEDED)))
		if (begins_with(name, "libstdc++.") || begins_with(name, "libc++"))
			traits->needs_cxx = true;
}

const struct image_traits *image__traits(struct image *image)
{
	if (image->traits_ready)
		return &image->traits;
	image->traits_ready = image->facts.fresh = true;
	FOR_EACH (table, image->tables)
		image->traits.has_symtab |= table->origin != SYMBOL_DYNSYM;
	note_segments(image, &image->traits);
	note_sections(&image->file, &image->traits);
	FOR_EACH (table, image->tables)
		image__each_symbol(image, table, true, note_symbol,
				   &(struct symbol_scan){&image->traits, table});
	return &image->traits;
}

#define MENTIONS_MAX  (64u << 20)
#define MENTIONS_PART (4u << 20) /* after which the memory of its pages is given back */

static bool mentions(struct image *image, void *text)
{
	size_t size, length = strlen(text);
	const uint8_t *bytes;
	bool found = false;
	Elf64_Shdr section;

	if (elf_view__section(&image->file, ".rodata", &section, &bytes)) {
		size = min_u64(section.sh_size, MENTIONS_MAX);
	} else {
		bytes = image->file.bytes;
		size = min_u64(image->file.size, MENTIONS_MAX);
	}
	for (size_t at = 0; !found && at < size; at += MENTIONS_PART) {
		found = memmem(bytes + at, min_u64(size - at, MENTIONS_PART + length), text,
			       length);
		image__release_pages(image);
	}
	return found;
}

bool image__mentions(struct image *image, const char *text)
{
	return image__answer(image, fnv1a(text, strlen(text)), mentions, (void *)text);
}

/* Where a NUL-terminated text is among the constants; 0: nowhere. */
static uint64_t find_text(const struct image *image, const char *text)
{
	FOR_EACH (segment, image->segments) {
		size_t size;
		const uint8_t *bytes = image__data(image, segment->vaddr, &size);
		const uint8_t *found = bytes ? memmem(bytes, size, text, strlen(text) + 1) : NULL;

		if (found)
			return segment->vaddr + (uint64_t)(found - bytes);
	}
	return 0;
}

/* The address to which `lea disp32(%rip), %reg` refers, whose opcode 8d is at `at`. */
static bool lea_refers(const uint8_t *at, uint64_t vaddr, uint64_t target)
{
	int32_t disp;

	if ((at[-1] & 0xf8) != 0x48 || (at[1] & 0xc7) != 0x05)
		return false;
	memcpy(&disp, at + 2, sizeof(disp));
	return vaddr + 6 + (uint64_t)(int64_t)disp == target;
}

int image__referrer(struct image *image, const char *text, uint64_t *start, uint64_t *size)
{
	uint64_t target = find_text(image, text), vaddr, found = 0, other, other_size;
	const uint8_t *code;
	size_t length;

	for (size_t i = 0; target && (code = image__code_segment(image, i, &vaddr, &length)); i++) {
		const uint8_t *at = code + 1, *end = code + length;

		for (; at < end - 6 && (at = memchr(at, 0x8d, (size_t)(end - 6 - at))); at++) {
			if (!lea_refers(at, vaddr + (uint64_t)(at - code), target) ||
			    image__fde(image, vaddr + (uint64_t)(at - code), &other, &other_size))
				continue;
			if (found && other != found)
				return -EEXIST;
			found = *start = other;
			*size = other_size;
		}
	}
	return found ? 0 : -ENOENT;
}

struct image *mapped_image_open(pid_t pid, const struct mapping *mapping, uint64_t *bias)
{
	struct module_ref ref = module_of(mapping);
	int fd = module_open(pid, &ref);
	struct image *image = fd < 0 ? NULL : image__open(fd, mapping->path, "");

	if (fd >= 0)
		close(fd);
	if (image && image__bias(image, mapping->start, mapping->file_offset, bias))
		return image;
	image__free(image);
	return NULL;
}

uint64_t mapped_symbol(const struct image *image, uint64_t bias, const char *name, uint64_t *bytes)
{
	uint64_t vaddr, size;

	if (!image__exported(image, name, &vaddr, &size))
		return 0;
	if (bytes)
		*bytes = size;
	return bias + vaddr;
}

uint64_t mapped_section(const struct image *image, uint64_t bias, const char *name, uint64_t *bytes)
{
	const uint8_t *content;
	Elf64_Shdr shdr;

	if (!elf_view__section(&image->file, name, &shdr, &content))
		return 0;
	*bytes = shdr.sh_size;
	return bias + shdr.sh_addr;
}

uint64_t mapped_variable(pid_t pid, const struct maps *maps, const struct image *image,
			 uint64_t bias, const char *name)
{
	const struct mapping *executable = NULL;
	uint64_t program_bias, address = 0;
	struct image *program;
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (!stat(path, &status))
		for (size_t i = 0; !executable && i < maps__count(maps); i++)
			if (maps__at(maps, i)->executable &&
			    maps__at(maps, i)->inode == status.st_ino)
				executable = maps__at(maps, i);
	program = executable ? mapped_image_open(pid, executable, &program_bias) : NULL;
	if (program)
		address = mapped_symbol(program, program_bias, name, NULL);
	image__free(program);
	return address ?: mapped_symbol(image, bias, name, NULL);
}
