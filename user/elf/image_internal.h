/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the image*.c files alone. */
#ifndef PERFX_ELF_IMAGE_INTERNAL_H
#define PERFX_ELF_IMAGE_INTERNAL_H

#include "elf/elf_view.h"
#include "elf/image.h"

struct segment {
	uint64_t vaddr, offset;
	uint64_t size; /* file-backed bytes, cut at the end of the file */
	bool executable;
};

struct symbol_table {
	const struct elf_view *view; /* the file that it is in */
	const uint8_t *symbols;	     /* Elf64_Sym[count], maybe not aligned */
	size_t count;
	struct elf_strings names;
	enum symbol_origin origin;
};

/* One function symbol; sorted by vaddr, then name, then table. 16 bytes a symbol is all that is
 * kept: names and the rest stay in the mapped file. */
struct symbol_key {
	uint64_t vaddr;
	uint16_t table;
	bool label; /* of no type, as assembler leaves its functions */
	uint32_t number;
};

struct symbol_list {
	struct symbol_key *keys; /* NULL until first needed */
	size_t count, capacity;
};

/* Findings depend on these and on the build id. The last three identify a file without build id,
 * and the time when it was last written or replaced; else they are 0. */
struct facts_key {
	uint64_t reader_id, file_bytes, debug_bytes;
	uint64_t symbols_counts[3]; /* of the tables */
	uint64_t device, inode, changed_ns;
};

/* Questions that have been asked; more are answered and forgotten. */
#define IMAGE_ANSWERS_MAX 4
struct image_answer {
	uint64_t question, yes;
};

struct image_facts {
	char *folder; /* NULL: findings are not kept */
	struct facts_key key;
	bool fresh; /* some are not in the file */
	struct image_answer answers[IMAGE_ANSWERS_MAX];
	size_t answers_count;
};

struct fde_place {
	uint64_t start; /* of the code that it covers */
	uint64_t vaddr; /* of the FDE itself */
	bool debug;	/* in .debug_frame: its offset there */
};

struct image {
	int fd;
	struct elf_view file;
	struct elf_view debug; /* bytes NULL: there is none */
	int debug_fd, alt_fd;  /* of debug, and of dwz's common file; -1 */
	bool mini_read;	       /* .gnu_debugdata has been unpacked, if there was need */
	char *path, *root;
	char build_id[2 * 64 + 1];

	struct segment *segments;
	size_t segments_count, segments_capacity;
	const uint8_t *dynamic; /* Elf64_Dyn[dynamic_count], maybe not aligned; or NULL */
	size_t dynamic_count;

	struct symbol_table tables[3];
	size_t tables_count;
	Elf64_Sym *go_symbols;	      /* image__add_go: not of the file; or NULL */
	struct symbol_list functions; /* all of them, or those near the focus */
	const uint64_t *focus;	      /* image__focus; NULL: everywhere */
	size_t focus_count;
	/* image__narrow: */
	bool (*wants)(const char *name, void *ctx); /* NULL: all names are wanted */
	void *wants_ctx;
	struct symbol_list wanted;
	void *plain_names; /* tsearch tree of names whose @VERSION was cut off */
	size_t plain_bytes;
	size_t symbols_read;
	long faults_at_release; /* image__limit_pages */

	bool frames_ready;
	struct eh_table {
		const uint8_t *entries; /* .eh_frame_hdr's sorted (int32 start, int32 fde) */
		size_t count;
		uint64_t base;
	} eh_table;
	struct fde_place *fdes; /* in files without that table: our own */
	size_t fdes_count, fdes_capacity;
	/* .debug_frame, of Go's functions and of a file without .eh_frame; NULL: none */
	const uint8_t *debug_frame;
	uint8_t *debug_frame_unpacked; /* ours; NULL: the file has it as it is */
	size_t debug_frame_bytes;

	bool annotations_ready;
	struct symbol *annotations; /* their names are ours */
	size_t annotations_count, annotations_capacity;

	bool traits_ready;
	struct image_traits traits;
	struct image_facts facts;
};

const struct segment *image__segment(const struct image *image, uint64_t vaddr);

/* Where the file has no .symtab, adds the one of .gnu_debugdata. */
void image__add_mini(struct image *image);

/* Adds a table of the functions that .gopclntab names. */
void image__add_go(struct image *image);

/* image_facts.c: the last chance to keep them. */
void image__forget_facts(struct image *image);

/* image_symbols.c */
/* Takes these keys for the wanted functions; false: they are not, and stay the caller's. */
bool image__keep_wanted(struct image *image, struct symbol_key *keys, size_t count);
void image__forget_symbols(struct image *image);
/* The function symbol that covers vaddr, -ENOENT. */
int image__covering(struct image *image, uint64_t vaddr, struct symbol *symbol);
void image__add_table(struct image *image, const struct elf_view *view, uint32_t section_type,
		      enum symbol_origin origin);

/* eh_frame.c */
void image__forget_frames(struct image *image);

/* image_note.c */
void image__forget_annotations(struct image *image);

/* Bounds the memory of the pages that are read: to be called with each symbol read out of order. */
void image__limit_pages(struct image *image);
/* Calls fn with each symbol of a table, in no order, until it returns an error: that is returned.
 * by_name: fn reads most of the names. */
int image__each_symbol(struct image *image, const struct symbol_table *table, bool by_name,
		       int (*fn)(void *ctx, const Elf64_Sym *sym, size_t number), void *ctx);

#endif
