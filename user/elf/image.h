/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One ELF file: symbols, perfx notes, code bytes, unwind table. Works on a descriptor, so that
 * deleted files and files of other mount namespaces read like any other. Big libraries
 * (libtorch_cpu: 530,000 symbols in 450 MB) are mapped, never read whole. Damaged files give less,
 * or an error, never a read outside them. One thread an image.
 *
 * Addresses: "vaddr" is the address in the file's own program headers; "offset" is the byte offset
 * in the file, which is what uprobes take. They differ in general (jaxlib).
 */
#ifndef PERFX_ELF_IMAGE_H
#define PERFX_ELF_IMAGE_H

#include "proc/maps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct image;

enum symbol_origin {
	SYMBOL_SYMTAB = 1, /* .symtab, or Go's .gopclntab */
	SYMBOL_DYNSYM,	   /* .dynsym */
	SYMBOL_DEBUG,	   /* .symtab of a separate debug file, or of .gnu_debugdata */
	SYMBOL_NOTE	   /* PERFX_TRACK() note */
};

struct symbol {
	const char *name; /* as in the file (mangled), without @VERSION; borrowed from the image */
	uint64_t vaddr;
	uint64_t size;	 /* bytes; where the symbol has none (assembler), up to the end of the FDE
			    that covers it, else up to the next symbol, FDE or section */
	uint64_t offset; /* in the file, bytes */
	enum symbol_origin origin;
	bool ifunc; /* STT_GNU_IFUNC: vaddr is the resolver, not the function */
	bool global;
	bool cold; /* name.cold: a part of a function that is jumped into, never called */
};

/* Takes a duplicate of fd; the caller keeps its own. path names it in messages and finds
 * .gnu_debuglink files beside it; root is "" or "/proc/PID/root": where the target's
 * /usr/lib/debug lies (build-id first, then debuglink with its CRC checked).
 * NULL with errno: ENOEXEC not ELF or damaged; ENOTSUP 32-bit, or of another machine. */
struct image *image__open(int fd, const char *path, const char *root);
void image__free(struct image *image);

/* Gives back the memory of the file's pages that have been read (elf_view__release_pages). */
void image__release_pages(const struct image *image);

/* Every function (STT_FUNC, STT_GNU_IFUNC, or STT_NOTYPE in code and in no other function; defined,
 * inside an executable segment) of all symbol tables, by ascending vaddr; each (name, vaddr) once.
 * Stops and returns what fn returns when that is not 0; -ENOMEM. The first call sorts
 * (libtorch_cpu: 0.1 s) and keeps 16 bytes a symbol. */
int image__each_function(struct image *image, int (*fn)(const struct symbol *symbol, void *ctx),
			 void *ctx);

/* From now on image__each_function gives only those whose names (as in struct symbol) are wanted.
 * `wants` is asked once of each entry of the tables, by the next image__each_function, in the order
 * of the file: that and sorting the few that are left takes a fraction of the time that all of a
 * big library's take. */
void image__narrow(struct image *image, bool (*wants)(const char *name, void *ctx), void *ctx);

/* From here on image__function_at and image__covering are asked of these addresses only: functions
 * that are far from all of them are not sorted, nor their names read. vaddrs: ascending, borrowed
 * as long as the image is asked. */
void image__focus(struct image *image, const uint64_t *vaddrs, size_t count);

/* Keeps what is found in a big file in a file of this folder when the image is freed, by its build
 * id (without one by its inode and the time of its last change), and takes it from there if it is
 * known: the names that image__narrow wants, its traits, answers (image__answer). After
 * image__narrow. reader_id: of the program and of what it wants. */
void image__keep_facts(struct image *image, const char *folder, uint64_t reader_id);

/* The answer of find for the file; computed once per image, and once per file whose facts are kept.
 * question: its name. */
bool image__answer(struct image *image, uint64_t question,
		   bool (*find)(struct image *image, void *ctx), void *ctx);

/* A hash of the build id of this program; 0: it has none. */
uint64_t image_own_id(void);

/* Where the kernel, or the dynamic linker, jumps to: it is never called, and where a return address
 * would lie is argc. 0: nowhere. */
uint64_t image__entry_point(const struct image *image);

/* Does the file export a function of that name (.dynsym)? Quick, however big the file. */
bool image__exports(const struct image *image, const char *name);

/* Where that symbol, of a function or a variable, is defined (.dynsym). False: it is not. */
bool image__exported(const struct image *image, const char *name, uint64_t *vaddr, uint64_t *size);

/* The function symbol whose code covers vaddr; of several names of one function the one that
 * callers know (malloc, not __libc_malloc). -ENOENT, -ENOMEM. */
int image__function_at(struct image *image, uint64_t vaddr, struct symbol *symbol);

/* Functions annotated with PERFX_TRACK() (include/perfx.h): .note.perfx entries. The name is the
 * one in the note and ready to be shown: the author's own text, or the function's name without
 * return type and arguments; do not demangle it. vaddr and size are the function's, found from the
 * symbol that covers the mark, or where the file is stripped from .eh_frame. A mark whose function
 * cannot be found, or that lies in the cold part that the compiler split off (a probe there would
 * miss calls), is given with vaddr 0 so that it can be reported. Marks of discarded code (address
 * 0) are skipped; each (name, vaddr) comes once. */
int image__each_annotation(struct image *image, int (*fn)(const struct symbol *symbol, void *ctx),
			   void *ctx);

/* Places where a program says how many operations it does (perfx_flops() in include/perfx.h): each
 * is a nop, with the number in the first argument's register. One place may come twice. Stops and
 * returns what fn returns when that is not 0. */
int image__each_hint(struct image *image, int (*fn)(uint64_t vaddr, void *ctx), void *ctx);

/* The USDT probes that the file's notes name (.note.stapsdt), in their order: one for each
 * place, so names repeat. Strings are borrowed from the image and may hold anything. A probe
 * outside the executable code is skipped, and one with a semaphore that the kernel could not raise.
 * Stops and returns what fn returns when that is not 0. */
struct usdt_probe {
	const char *provider, *name;
	const char *arguments; /* as the assembler wrote them: "8@%rdi -4@-20(%rbp)" */
	uint64_t vaddr;	       /* of the nop that takes the probe */
	uint64_t offset;       /* in the file, bytes */
	uint64_t semaphore_vaddr, semaphore_offset; /* of a u16; 0: it has none */
};
int image__each_usdt(struct image *image, int (*fn)(const struct usdt_probe *probe, void *ctx),
		     void *ctx);

/* Code bytes at a vaddr: a pointer into the mapped file and in *available how many bytes of the
 * segment follow. NULL where no file-backed executable segment covers it. */
const uint8_t *image__code(const struct image *image, uint64_t vaddr, size_t *available);
/* Any file-backed bytes (jump tables in .rodata). */
const uint8_t *image__data(const struct image *image, uint64_t vaddr, size_t *available);

/* The file-backed executable segments, one after the other: their address in *vaddr and their
 * length in *size. NULL after the last. */
const uint8_t *image__code_segment(const struct image *image, size_t index, uint64_t *vaddr,
				   size_t *size);

/* File offset of a vaddr in a file-backed segment; -1 when none covers it. */
int64_t image__offset(const struct image *image, uint64_t vaddr);
/* The inverse, for addresses seen in a process: offset → vaddr; -1 likewise. */
int64_t image__vaddr(const struct image *image, uint64_t offset);

/* The difference between a vaddr and its address in a process that maps code of the file at start,
 * from that offset on. False: no code is there. */
bool image__bias(const struct image *image, uint64_t start, uint64_t file_offset, uint64_t *bias);

/* The FDE that covers vaddr: function start and size as the unwind table knows them. -ENOENT. */
int image__fde(struct image *image, uint64_t vaddr, uint64_t *start, uint64_t *size);

/* Where the frame is at an instruction: CFA = reg + cfa_offset (System V: the CFA is the value of
 * rsp before the call, so the return address lies at CFA - 8). From .eh_frame.
 * -ENOENT no row; -ENOTSUP the rule is neither rsp + n nor rbp + n. On arm64 sp and x29. */
enum cfa_reg { CFA_RSP = 1, CFA_RBP = 2 };
int image__cfa(struct image *image, uint64_t vaddr, enum cfa_reg *reg, int64_t *cfa_offset);

/* Whether the file or its separate debug file has DWARF. */
bool image__has_dwarf(struct image *image);

/* Where the DWARF is: in *fd the file that has .debug_info, this one or its separate debug file; in
 * *alt_fd the file that dwz moved the common part to, or -1. Both are borrowed. -ENOENT: there is
 * none, or only a part of it is there. */
int image__debug_info(struct image *image, int *fd, int *alt_fd);

/* Build-id as lower-case hex, or "" . */
const char *image__build_id(const struct image *image);

/* The entries of .dynamic, also in a file without sections. False: behind the last one. */
bool image__dynamic(const struct image *image, size_t index, int64_t *tag, uint64_t *value);

/* The name that programs are linked to (DT_SONAME: libgomp.so.1 of libgomp.so.1.0.0), or "".
 * Borrowed from the image. */
const char *image__soname(const struct image *image);

/* Traits that decide how its functions may be timed: can anything unwind through its frames? */
struct image_traits {
	bool dynamic;	       /* has PT_INTERP or PT_DYNAMIC; false: static */
	bool needs_loader;     /* has PT_INTERP: a program that others are linked to as it starts */
	bool has_symtab;       /* .symtab here or in a debug file */
	bool has_except_table; /* .gcc_except_table: landing pads: C++, Rust, -fexceptions C */
	bool needs_cxx;	       /* DT_NEEDED libstdc++, libc++, or defines __gxx_personality_v0 */
	bool is_rust;	       /* defines rust_eh_personality or, where it has no such table,
				  _R / _ZN…17h names */
	bool is_go;	       /* .gopclntab or .note.go.buildid */
	bool switches_stacks;  /* uses swapcontext, makecontext, setcontext or defines/uses a known
				  coroutine switch (jump_fcontext, co_switch, …) */
};
const struct image_traits *image__traits(struct image *image);

/* Is the text among its constants (.rodata; in a file without sections anywhere)? Of big files the
 * first 64 MiB are looked at. */
bool image__mentions(struct image *image, const char *text);

/* The function whose code, and no other's, refers to a constant text: its start and size as the
 * unwind table knows them. -ENOENT: no function does, by an instruction of x86-64; -EEXIST: several
 * do. */
int image__referrer(struct image *image, const char *text, uint64_t *start, uint64_t *size);

/* The file behind a mapping of a process: where its symbols are in that process. */

/* Opens the file of an executable mapping; *bias: what to add to an address in the file to get that
 * in the process. NULL: it cannot be read, or has no code there. The caller frees. */
struct image *mapped_image_open(pid_t pid, const struct mapping *mapping, uint64_t *bias);

/* The address in the process of a symbol that the file exports; 0: it does not. bytes: its size;
 * may be NULL. */
uint64_t mapped_symbol(const struct image *image, uint64_t bias, const char *name, uint64_t *bytes);

/* The address in the process of a section and its size; 0: the file has none of that name. */
uint64_t mapped_section(const struct image *image, uint64_t bias, const char *name,
			uint64_t *bytes);

/* The same of a variable. A program that uses a library's variable may have a copy of its own,
 * which the library uses too (R_X86_64_COPY): so the executable is asked first. */
uint64_t mapped_variable(pid_t pid, const struct maps *maps, const struct image *image,
			 uint64_t bias, const char *name);

#endif
