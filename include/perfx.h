/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfx.h: name the functions of your program that perfx-trace shall time, and say how many
 * floating-point operations they do.
 *
 *	#include <perfx.h>
 *
 *	static void train_step(struct net *net)
 *	{
 *		PERFX_TRACK();
 *		...
 *	}
 *
 * That is all: no library to link, nothing to initialise, nothing to execute. The statement leaves
 * a note in the ELF file that says where the function is and what it is called, in a section that
 * is not loaded into memory and that strip keeps. `perfx-trace -p PID` reads it from the files that
 * the process has mapped and times the functions.
 *
 *	PERFX_TRACK();          the function's own name, also in a stripped file
 *	PERFX_TRACK_AS("name"); a name of yours: a string literal, shown as it is written
 *	perfx_flops(n);         n operations are done here (a multiply-add is 2): they are added to
 *	                        the innermost function that is being timed
 *
 * Put it first in the body. It works in C11 and C++11 and later with GCC and Clang at every
 * optimisation level, in static and inline functions, templates, methods, constructors, lambdas,
 * shared libraries, PIE, static executables, with LTO and --gc-sections. On anything but 64-bit ELF
 * both macros are an empty statement. A constexpr function cannot hold it.
 *
 * A marked function is never inlined: an inlined copy has no entry and no exit to count, and its
 * mark would name the caller. So mark what is worth a function call, not the accessor in the
 * innermost loop. (A recursion that the compiler made a loop of is no call either.) No attribute
 * can be set from inside a body, but both compilers have a reason never to inline:
 * - GCC: a function that keeps the address of a label in a static variable is neither inlined nor
 *   cloned ("Labels as Values" in its manual). The variable is unused and not emitted.
 * - Clang: a function that uses the address of a label otherwise than to branch, here in the asm
 *   statement, is not inlined, at link time neither. It takes the label for the target of an
 *   indirect jump, so the statement ends a basic block: worth a register move at most. Only with
 *   -fcf-protection it puts one endbr64 there, a no-op.
 *
 * perfx_flops costs, as long as nobody traces, that n is in a register (rdi; x0 on arm64) at a nop,
 * which is where the tracer puts its probe, and another nop before it: the function's own entry may
 * be probed there, which must not be after the hint nor at the same place. It may be used anywhere,
 *also in functions that are inlined; once for a loop rather than in it, for a probe that is hit
 *costs most of a microsecond.
 *
 * The notes (the ABI that perfx-trace reads; fields in the file's byte order)
 *
 *	section .note.perfx, SHT_NOTE, not SHF_ALLOC, entries aligned to 4
 *	u32 namesz = 6, u32 descsz, u32 type = 1, "perfx\0\0\0", then descsz bytes:
 *	 0  u64 mark   vaddr of a place in the function; the function that covers it is meant
 *	 8  u64 name   vaddr of the NUL-terminated name in a loaded read-only section, or 0
 *	16  u32 flags  PERFX_NOTE_*
 *	20  u32 zero
 *	24  char[]     the name when it is in the note (PERFX_NOTE_NAME_VADDR not set: notes written
 *	               in assembler), NUL-terminated; empty otherwise; zeros up to a multiple of 4
 *
 * The same with type = 2, descsz = 16 for perfx_flops:
 *	 0  u64 place  vaddr of the nop; 0: the linker threw the code away
 *	 8  u32 flags  none so far
 *	12  u32 zero
 *
 * vaddr is what the file's program headers call it: there are no dynamic relocations in a section
 * that is not loaded. The u64 fields are only aligned to 4. A function may have several equal
 * notes (the compiler copied the statement; both constructors of a class with virtual bases), and
 * notes of code that the linker threw away have mark 0. Unknown flags: ignore the flag. Unknown
 * type: skip the note.
 *
 * How it is tied to its function: flag "?" puts the note into the function's COMDAT group, if it
 * has one, and SHF_LINK_ORDER ("o") makes the linker discard it together with the function; without
 * that a note section is a root for --gc-sections and would keep dead functions. The name needs a
 * reference from the function itself, because not every linker follows those of notes: .reloc
 * leaves a relocation of type NONE, which changes no byte. (gold does not follow SHF_LINK_ORDER: it
 * stops with "discarded section" when --gc-sections finds a marked function dead. ld and lld do.)
 */
#ifndef PERFX_H
#define PERFX_H

/* The macros use GNU extensions: -Wpedantic is about the code of those who include this. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif

#define PERFX_NOTE_OWNER      "perfx"
#define PERFX_NOTE_TYPE	      1
#define PERFX_NOTE_TYPE_FLOPS 2

#define PERFX_NOTE_PRETTY     0x1 /* the name is a __PRETTY_FUNCTION__ */
#define PERFX_NOTE_AUTHOR     0x2 /* the name is the author's own: show it untouched */
#define PERFX_NOTE_NAME_VADDR 0x4 /* the name is at the vaddr in the second field */

#if defined(__ELF__) && defined(__LP64__) && defined(__GNUC__)

#if defined(__cplusplus)
#define PERFX_TRACK() PERFX_MARK_(__PRETTY_FUNCTION__, "5")
#else
#define PERFX_TRACK() PERFX_MARK_(__func__, "4")
#endif
/* "" makes anything but a string literal an error. */
#define PERFX_TRACK_AS(name) PERFX_MARK_("" name, "6")

/* An address known to the linker. On arm64 "i" refuses symbols in position-independent code. */
#if defined(__aarch64__)
#define PERFX_SYM_ "S"
#else
#define PERFX_SYM_ "i"
#endif

/* %= is unique to each copy of the statement that the compiler emits. The last word is the empty
 * inline name and its padding. */
#define PERFX_NOTE_(flags)                                          \
	".Lperfx_mark%=:\n\t"                                       \
	".reloc .Lperfx_mark%=, BFD_RELOC_NONE, %c[name]\n\t"       \
	".pushsection .note.perfx,\"?o\",%%note,.Lperfx_mark%=\n\t" \
	".balign 4\n\t"                                             \
	".4byte 6\n\t"                                              \
	".4byte 28\n\t"                                             \
	".4byte 1\n\t"                                              \
	".ascii \"perfx\\0\\0\\0\"\n\t"                             \
	".8byte .Lperfx_mark%=\n\t"                                 \
	".8byte %c[name]\n\t"                                       \
	".4byte " flags "\n\t"                                      \
	".4byte 0\n\t"                                              \
	".4byte 0\n\t"                                              \
	".popsection"

#if !defined(__OPTIMIZE__)
#define PERFX_MARK_(string, flags) \
	__extension__({ __asm__ __volatile__(PERFX_NOTE_(flags) : : [name] PERFX_SYM_(string)); })
#elif defined(__clang__)
#define PERFX_MARK_(string, flags)                                                     \
	__extension__({                                                                \
		__label__ perfx_here_;                                                 \
perfx_here_:                                                                           \
		__asm__ __volatile__(PERFX_NOTE_(flags)                                \
				     :                                                 \
				     : [name] PERFX_SYM_(string), "i"(&&perfx_here_)); \
	})
#else
#define PERFX_MARK_(string, flags)                                                      \
	__extension__({                                                                 \
		__label__ perfx_here_;                                                  \
		static const void *const perfx_noinline_ = &&perfx_here_;               \
perfx_here_:                                                                            \
		(void)perfx_noinline_;                                                  \
		__asm__ __volatile__(PERFX_NOTE_(flags) : : [name] PERFX_SYM_(string)); \
	})
#endif

#define PERFX_FLOPS_NOTE_                                            \
	"nop\n\t"                                                    \
	".Lperfx_flops%=:\n\tnop\n\t"                                \
	".pushsection .note.perfx,\"?o\",%%note,.Lperfx_flops%=\n\t" \
	".balign 4\n\t"                                              \
	".4byte 6\n\t"                                               \
	".4byte 16\n\t"                                              \
	".4byte 2\n\t"                                               \
	".ascii \"perfx\\0\\0\\0\"\n\t"                              \
	".8byte .Lperfx_flops%=\n\t"                                 \
	".4byte 0\n\t"                                               \
	".4byte 0\n\t"                                               \
	".popsection"

static inline __attribute__((always_inline, unused)) void perfx_flops(unsigned long long n)
{
#if defined(__x86_64__)
	__asm__ __volatile__(PERFX_FLOPS_NOTE_ : : "D"(n));
#elif defined(__aarch64__)
	register unsigned long long perfx_n_ __asm__("x0") = n;

	__asm__ __volatile__(PERFX_FLOPS_NOTE_ : : "r"(perfx_n_));
#else
	(void)n;
#endif
}

#else
#define PERFX_TRACK()	     ((void)0)
#define PERFX_TRACK_AS(name) ((void)0)

static inline void perfx_flops(unsigned long long n)
{
	(void)n;
}
#endif

#endif
