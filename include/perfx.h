/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Annotations for perfx-trace: functions, ranges, steps, counters, memory blocks, and
 * floating-point operations. docs/annotations.md describes their use and how they appear in
 * reports.
 *
 *	#include <perfx.h>
 *
 *	static void train_step(struct net *net)
 *	{
 *		PERFX_TRACK();
 *		...
 *	}
 *
 * There is no library to link and nothing to initialize. Two kinds of annotation differ in their
 * cost while the program is not traced.
 *
 * Notes (no code is executed)
 *
 *	PERFX_TRACK();          the function's own name, also in a stripped file
 *	PERFX_TRACK_AS("name"); your own name, a string literal, shown unchanged
 *	perfx_flops(n);         adds n operations (a multiply-add is 2) to the innermost open
 *	                        function or range
 *
 * Markers (a call of an empty function and its return)
 *
 *	PERFX_SCOPE("name");    a range from here to the end of the block
 *	perfx_range_push("name");  ...  perfx_range_pop();         nested, on one thread
 *	id = perfx_range_start("name");  ...  perfx_range_end(id); ends anywhere, on any thread
 *	perfx_step_begin();  ...  perfx_step_end();                a training step
 *	perfx_counter("loss", x);  perfx_counter_add("tokens", n); sets a value; adds to one
 *	perfx_memory_alloc("pool", p, bytes);  perfx_memory_free("pool", p);   your own allocator
 *	perfx_mark("evaluate");                                    a point in time
 *	perfx_trace_start();  perfx_trace_stop();                  limits of perfx-trace --wait
 *
 * Names are NUL-terminated text, which may be built at run time: it is read during the call and not
 * kept. Markers allocate nothing, take no lock and may be used in signal handlers.
 *
 * PERFX_TRACK
 *
 * Put it first in the function's body. It works in C11 and C++11 and later with GCC and Clang at
 * every optimization level, in static and inline functions, templates, methods, constructors,
 * lambdas, shared libraries, PIE, static executables, with LTO and --gc-sections. Except on 64-bit
 * ELF, both macros are empty statements. A constexpr function cannot contain them.
 *
 * A tracked function is never inlined, because an inlined copy has no entry and no exit to count,
 * and its note would name the caller. Therefore do not track accessors in innermost loops.
 * (Recursion that the compiler turned into a loop makes no calls either.) An attribute cannot be
 * set inside a body, but each compiler has another reason not to inline:
 * - GCC neither inlines nor clones a function that keeps the address of a label in a static
 *   variable ("Labels as Values" in its manual). The variable is unused and not emitted.
 * - Clang does not inline, even at link time, a function that uses the address of a label other
 *   than to branch, here in the asm statement. It treats the label as the target of an indirect
 *   jump, so the statement ends a basic block: at most a register move more. With -fcf-protection
 *   it puts one endbr64 there, a no-op.
 *
 * While it is not traced, perfx_flops costs two nops and the count in a register (rdi; x0 on
 * arm64). The tracer probes the second nop; because of the first, the probe at the function's own
 * entry comes earlier. perfx_flops may be used anywhere, also in inlined functions. Call it once
 * before a loop, not inside: a probe hit costs about a microsecond.
 *
 * The notes (the ABI that perfx-trace reads; fields in the file's byte order)
 *
 *	section .note.perfx, SHT_NOTE, not SHF_ALLOC, entries aligned to 4
 *	u32 namesz = 6, u32 descsz, u32 type = 1, "perfx\0\0\0", then descsz bytes:
 *	 0  u64 mark   vaddr of an instruction in the tracked function
 *	 8  u64 name   vaddr of the NUL-terminated name in a loaded read-only section, or 0
 *	16  u32 flags  PERFX_NOTE_*
 *	20  u32 zero
 *	24  char[]     the name, NUL-terminated, if PERFX_NOTE_NAME_VADDR is not set (notes written
 *	               in assembler), otherwise empty; zeros up to a multiple of 4
 *
 * The same with type = 2, descsz = 16 for perfx_flops:
 *	 0  u64 place  vaddr of the nop; 0: the linker discarded the code
 *	 8  u32 flags  none so far
 *	12  u32 zero
 *
 * vaddr is that of the file's program headers: a section that is not loaded has no dynamic
 * relocations. The u64 fields are only aligned to 4. A function may have several equal notes (the
 * compiler copied the statement; both constructors of a class with virtual bases), and notes of
 * code that the linker discarded have mark 0. Ignore unknown flags; skip notes of unknown type.
 *
 * The note belongs to its function: flag "?" puts it into the function's COMDAT group, if any, and
 * SHF_LINK_ORDER ("o") makes the linker discard it with the function. Without that, the note
 * section would be a root for --gc-sections and keep dead functions. The name needs a reference
 * from the function itself, because not every linker follows references from notes: .reloc leaves a
 * relocation of type NONE, which changes no byte. (gold ignores SHF_LINK_ORDER: it stops with
 * "discarded section" if --gc-sections finds a marked function dead. ld and lld do not.)
 *
 * The markers (the ABI that tracers read)
 *
 * perfx_X(...) calls the hidden function perfx_at_X. The first use in an object file defines it,
 * and the linker keeps one of them. On x86-64 it is
 *	0f 1f 44 00 00   nop5
 *	90               nop
 *	c3               ret
 * Linux 6.18 and later turn a probe on a 5-byte nop into a call. That is safe only where no data is
 * below the stack pointer: at the entry of a function, not in the annotated code, so this function
 * is never inlined. Earlier kernels would single-step the 5-byte nop, and 6.18 itself has a bug:
 * forked children inherit the call but not its target, and crash. On these kernels the nop behind
 * it is probed, with the same registers. On arm64 the function is: nop, ret.
 *
 * Each has a USDT note (.note.stapsdt, provider "perfx", name "X") whose location is the first
 * byte, for bpftrace, perf, gdb and SystemTap: bpftrace -e 'usdt:./a:perfx:mark
 * { printf("%s\n", str(arg0)); }'. Arguments are integers, in the order of the C interface:
 *
 *	range_push    name, parent         range_pop    -
 *	range_start   name, id, parent     range_end    id
 *	mark          name
 *	counter       name, value          counter_add  name, delta     (a double's bits)
 *	memory_alloc  name, ptr, bytes     memory_free  name, ptr
 *	step_begin    -                    step_end     -
 *	trace_start   -                    trace_stop   -
 *
 * A counter is passed as the double's bits, because uprobe programs cannot read vector registers.
 * parent is the id of the open range that contains this one, or 0: the innermost open range or
 * function of the thread. Tasks that take turns on one thread pass it to perfx_range_push_in and
 * perfx_range_start_in.
 */
#ifndef PERFX_H
#define PERFX_H

#include <stddef.h>
#include <stdint.h>

/* The macros use GNU extensions, which must not cause -Wpedantic warnings in including code. */
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
/* "" rejects everything but a string literal. */
#define PERFX_TRACK_AS(name) PERFX_MARK_("" name, "6")

/* An address known to the linker. On arm64, "i" rejects symbols in position-independent code. */
#if defined(__aarch64__)
#define PERFX_SYM_ "S"
#else
#define PERFX_SYM_ "i"
#endif

/* %= is unique to each emitted copy of the statement. The last word is the empty inline name with
 * its padding. */
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

#if defined(__x86_64__)
#define PERFX_FLOPS_(count) __asm__ __volatile__(PERFX_FLOPS_NOTE_ : : "D"(count))
#elif defined(__aarch64__)
#define PERFX_FLOPS_(count)                                                \
	__extension__({                                                    \
		register uint64_t perfx_n_ __asm__("x0") = (count);        \
		__asm__ __volatile__(PERFX_FLOPS_NOTE_ : : "r"(perfx_n_)); \
	})
#endif

#else
#define PERFX_TRACK()	     ((void)0)
#define PERFX_TRACK_AS(name) ((void)0)
#endif

/* --- markers ---
 *
 * The function is written in assembler, beside its call. So it has the same bytes at every
 * optimization level, a COMDAT group also in C, and does not exist in files without markers.
 * .ifndef is needed because inlining copies the statement, and link-time optimization merges files.
 */
#if defined(PERFX_FLOPS_)

#if defined(__x86_64__)
#define PERFX_BODY_ ".byte 0x0f,0x1f,0x44,0,0\n\tnop\n\tret\n\t"
#define PERFX_ARG1_ "8@%rdi"
#define PERFX_ARG2_ "8@%rdi 8@%rsi"
#define PERFX_ARG3_ "8@%rdi 8@%rsi 8@%rdx"
#else
#define PERFX_BODY_ "nop\n\tret\n\t"
#define PERFX_ARG1_ "8@x0"
#define PERFX_ARG2_ "8@x0 8@x1"
#define PERFX_ARG3_ "8@x0 8@x1 8@x2"
#endif
#define PERFX_ARG0_ ""

/* As in <sys/sdt.h>: the address of this section shows tools whether a file was prelinked. */
#define PERFX_SDT_BASE_                                                        \
	".ifndef _.stapsdt.base\n\t"                                           \
	".pushsection .stapsdt.base,\"aG\",%progbits,.stapsdt.base,comdat\n\t" \
	".weak _.stapsdt.base\n\t"                                             \
	".hidden _.stapsdt.base\n"                                             \
	"_.stapsdt.base:\n\t"                                                  \
	".space 1\n\t"                                                         \
	".size _.stapsdt.base, 1\n\t"                                          \
	".popsection\n\t"                                                      \
	".endif\n\t"

/* The note is in the group of its function, so the linker keeps or discards both. It has its own
 * label, because the function's name may resolve to another file's copy. It has no semaphore, which
 * would save no work while untraced. */
#define PERFX_SDT_NOTE_(marker, arguments)                                        \
	".pushsection .note.stapsdt,\"G\",%note,perfx_at_" marker ",comdat\n\t"   \
	".balign 4\n\t"                                                           \
	".4byte 8\n\t"                                                            \
	".4byte .Lperfx_note_" marker "_end - .Lperfx_note_" marker "\n\t"        \
	".4byte 3\n\t"                                                            \
	".asciz \"stapsdt\"\n"                                                    \
	".Lperfx_note_" marker ":\n\t"                                            \
	".8byte .Lperfx_at_" marker "\n\t"                                        \
	".8byte _.stapsdt.base\n\t"                                               \
	".8byte 0\n\t"                                                            \
	".asciz \"perfx\"\n\t.asciz \"" marker "\"\n\t.asciz \"" arguments "\"\n" \
	".Lperfx_note_" marker "_end:\n\t"                                        \
	".balign 4\n\t"                                                           \
	".popsection\n\t"

#define PERFX_MARKER_(marker, arguments)                                                          \
	".ifndef perfx_at_" marker "\n\t"                                                         \
	".pushsection .text.perfx_at_" marker ",\"axG\",%progbits,perfx_at_" marker ",comdat\n\t" \
	".balign 16\n\t"                                                                          \
	".weak perfx_at_" marker "\n\t"                                                           \
	".hidden perfx_at_" marker "\n\t"                                                         \
	".type perfx_at_" marker ",%function\n"                                                   \
	".Lperfx_at_" marker ":\n"                                                                \
	"perfx_at_" marker ":\n\t" PERFX_BODY_ ".size perfx_at_" marker ", . - perfx_at_" marker  \
	"\n\t"                                                                                    \
	".popsection\n\t" PERFX_SDT_BASE_                                                         \
	PERFX_SDT_NOTE_(marker, arguments) ".endif"

/* 64-bit count of the ids that this executable or library has assigned. */
#define PERFX_COUNT_                                                                         \
	".ifndef perfx_range_count_\n\t"                                                     \
	".pushsection .bss.perfx_range_count_,\"awG\",%nobits,perfx_range_count_,comdat\n\t" \
	".balign 8\n\t"                                                                      \
	".weak perfx_range_count_\n\t"                                                       \
	".hidden perfx_range_count_\n\t"                                                     \
	".type perfx_range_count_,%object\n"                                                 \
	"perfx_range_count_:\n\t"                                                            \
	".zero 8\n\t"                                                                        \
	".size perfx_range_count_, 8\n\t"                                                    \
	".popsection\n\t"                                                                    \
	".endif"

/* inline: the compiler's inlining heuristics count it as one instruction. */
#if defined(__clang__) ? __clang_major__ >= 11 : __GNUC__ >= 9
#define PERFX_ASM_ __asm__ __volatile__ __inline__
#else
#define PERFX_ASM_ __asm__ __volatile__
#endif

#define PERFX_HIT_(marker, arguments, call)                                  \
	do {                                                                 \
		PERFX_ASM_(PERFX_MARKER_(#marker, PERFX_ARG##arguments##_)); \
		perfx_at_##marker call;                                      \
	} while (0)

#define PERFX_AT_ __attribute__((visibility("hidden"), nothrow)) void

#else
#define PERFX_FLOPS_(count)		    ((void)(count))
#define PERFX_HIT_(marker, arguments, call) PERFX_NO_HIT##arguments##_(call)
#define PERFX_NO_HIT0_(call)		    ((void)0)
#define PERFX_NO_HIT1_(call)		    ((void)call)
#define PERFX_NO_HIT2_(call)		    ((void)call)
#define PERFX_NO_HIT3_(call)		    ((void)call)
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#define PERFX_INLINE_ inline __attribute__((always_inline, visibility("hidden"), nothrow))
#elif defined(__cplusplus)
#define PERFX_INLINE_ inline
#elif defined(__GNUC__)
#define PERFX_INLINE_ static __inline__ __attribute__((always_inline, unused))
#else
#define PERFX_INLINE_ static __inline
#endif
/* libperfx defines it to export these functions. */
#if !defined(PERFX_API_)
#define PERFX_API_ PERFX_INLINE_
#endif

#if defined(__cplusplus)
extern "C" {
#endif

#if defined(PERFX_AT_)
PERFX_AT_ perfx_at_range_push(const char *name, uint64_t parent);
PERFX_AT_ perfx_at_range_pop(void);
PERFX_AT_ perfx_at_range_start(const char *name, uint64_t id, uint64_t parent);
PERFX_AT_ perfx_at_range_end(uint64_t id);
PERFX_AT_ perfx_at_mark(const char *name);
PERFX_AT_ perfx_at_counter(const char *name, uint64_t value_bits);
PERFX_AT_ perfx_at_counter_add(const char *name, uint64_t delta_bits);
PERFX_AT_ perfx_at_memory_alloc(const char *name, const void *ptr, size_t bytes);
PERFX_AT_ perfx_at_memory_free(const char *name, const void *ptr);
PERFX_AT_ perfx_at_step_begin(void);
PERFX_AT_ perfx_at_step_end(void);
PERFX_AT_ perfx_at_trace_start(void);
PERFX_AT_ perfx_at_trace_stop(void);
extern __attribute__((visibility("hidden"))) uint64_t perfx_range_count_;
#endif

/* A range on this thread, from here to the matching pop. */
PERFX_API_ void perfx_range_push_in(const char *name, uint64_t parent)
{
	PERFX_HIT_(range_push, 2, (name, parent));
}

PERFX_API_ void perfx_range_push(const char *name)
{
	PERFX_HIT_(range_push, 2, (name, 0));
}

PERFX_API_ void perfx_range_pop(void)
{
	PERFX_HIT_(range_pop, 0, ());
}

/* The page of the count distinguishes the ids of a process's modules. */
PERFX_INLINE_ uint64_t perfx_new_id_(void)
{
	uint64_t id = 0;

#if defined(PERFX_AT_)
	PERFX_ASM_(PERFX_COUNT_);
	id = __atomic_add_fetch(&perfx_range_count_, 1, __ATOMIC_RELAXED) & 0xffffffffffu;
	id |= (uint64_t)(uintptr_t)&perfx_range_count_ >> 12 << 40;
#endif
	return id;
}

/* A range that any thread may end by its id. The id is not 0 (no range) and unique among the open
 * ranges of the process. */
PERFX_API_ uint64_t perfx_range_start_in(const char *name, uint64_t parent)
{
	uint64_t id = perfx_new_id_();

	PERFX_HIT_(range_start, 3, (name, id, parent));
	return id;
}

PERFX_API_ uint64_t perfx_range_start(const char *name)
{
	uint64_t id = perfx_new_id_();

	PERFX_HIT_(range_start, 3, (name, id, 0));
	return id;
}

PERFX_API_ void perfx_range_end(uint64_t id)
{
	PERFX_HIT_(range_end, 1, (id));
}

/* A point in time. */
PERFX_API_ void perfx_mark(const char *name)
{
	PERFX_HIT_(mark, 1, (name));
}

PERFX_INLINE_ uint64_t perfx_bits_(double value)
{
	union {
		double value;
		uint64_t bits;
	} as;

	as.value = value;
	return as.bits;
}

PERFX_API_ void perfx_counter(const char *name, double value)
{
	PERFX_HIT_(counter, 2, (name, perfx_bits_(value)));
}

PERFX_API_ void perfx_counter_add(const char *name, double delta)
{
	PERFX_HIT_(counter_add, 2, (name, perfx_bits_(delta)));
}

/* Blocks of your own allocator; name is the allocator's name or the blocks' purpose. */
PERFX_API_ void perfx_memory_alloc(const char *name, const void *ptr, size_t bytes)
{
	PERFX_HIT_(memory_alloc, 3, (name, ptr, bytes));
}

PERFX_API_ void perfx_memory_free(const char *name, const void *ptr)
{
	PERFX_HIT_(memory_free, 2, (name, ptr));
}

/* Floating-point operations of the current range; a multiply-add is 2. */
PERFX_API_ void perfx_flops(uint64_t count)
{
	PERFX_FLOPS_(count);
}

PERFX_API_ void perfx_step_begin(void)
{
	PERFX_HIT_(step_begin, 0, ());
}

PERFX_API_ void perfx_step_end(void)
{
	PERFX_HIT_(step_end, 0, ());
}

/* perfx-trace --wait records from start to stop, as often as they are called. */
PERFX_API_ void perfx_trace_start(void)
{
	PERFX_HIT_(trace_start, 0, ());
}

PERFX_API_ void perfx_trace_stop(void)
{
	PERFX_HIT_(trace_stop, 0, ());
}

#if defined(__cplusplus)
}

class perfx_scope_
{
      public:
	PERFX_INLINE_ explicit perfx_scope_(const char *name)
	{
		perfx_range_push(name);
	}
	PERFX_INLINE_ ~perfx_scope_()
	{
		perfx_range_pop();
	}
	perfx_scope_(const perfx_scope_ &) = delete;
	perfx_scope_ &operator=(const perfx_scope_ &) = delete;
};
#define PERFX_SCOPE_VAR_(name, n) const perfx_scope_ perfx_scope_##n(name)

#elif defined(__GNUC__)
PERFX_INLINE_ char perfx_scope_begin_(const char *name)
{
	perfx_range_push(name);
	return 0;
}

PERFX_INLINE_ void perfx_scope_end_(const char *scope)
{
	(void)scope;
	perfx_range_pop();
}
#define PERFX_SCOPE_VAR_(name, n)                                                       \
	const char perfx_scope_##n __attribute__((cleanup(perfx_scope_end_), unused)) = \
		perfx_scope_begin_(name)

#else
#define PERFX_SCOPE_VAR_(name, n) ((void)(name))
#endif

/* A statement: a range to the end of the block, however it is left (in C, except by longjmp). */
#define PERFX_SCOPE(name)	 PERFX_SCOPE_AT_(name, __COUNTER__)
#define PERFX_SCOPE_AT_(name, n) PERFX_SCOPE_VAR_(name, n)

#endif
