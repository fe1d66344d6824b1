// SPDX-License-Identifier: BSD-2-Clause
/*
 * libiberty demangles; without DMGL_PARAMS it leaves out arguments and return type of the function
 * itself, but not the return type of a template that a local name is in ("void f<int>(int)::{lambda
 * …"). That and __PRETTY_FUNCTION__ need the little reader of C++ declarations below.
 */
#include "elf/demangle.h"

#include "base/text.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024 };

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

/* p is at an opening bracket. Returns the place behind the closing one, or the end of the text.
 * '<' closes with '>' only where it is the innermost bracket: "(a<b)" compares. */
static const char *skip_bracket(const char *p)
{
	char stack[256];
	size_t depth = 0;

	for (; *p; p++) {
		if (strchr("(<[{", *p)) {
			if (depth == sizeof(stack))
				return p + strlen(p);
			stack[depth++] = *p;
		} else if (*p == '>' && p[-1] != '-' && stack[depth - 1] == '<') {
			depth--;
		} else if (strchr(")]}", *p)) {
			char open = *p == ')' ? '(' : *p == ']' ? '[' : '{';

			while (depth && stack[depth - 1] != open)
				depth--;
			depth -= depth > 0;
		}
		if (!depth)
			return p + 1;
	}
	return p;
}

/* p is behind the word "operator". Returns the place behind what it names: a symbol, or a type. */
static const char *skip_operator(const char *p)
{
	static const char *const symbols[] = {"()", "[]", "->*", "<=>", "<<=", ">>=", "<<",
					      ">>", "->", "<=",	 ">=",	"<",   ">",   NULL};

	for (size_t i = 0; symbols[i]; i++)
		if (begins_with(p, symbols[i]))
			return p + strlen(symbols[i]);
	/* ==, +, new[], delete, ""_x, co_await, a type with its own template arguments */
	while (*p && *p != '(' && !begins_with(p, "::")) {
		if (*p == '<')
			p = skip_bracket(p);
		else if (begins_with(p, "[]"))
			p += 2;
		else if (begins_with(p, " []")) /* gcc: "operator new []" */
			p += 3;
		else if (*p == '[' || (*p == ' ' && p[1] == '['))
			break;
		else
			p++;
	}
	return p;
}

/* Skips what stands between ")" or "<lambda()>" and "::": " const::", " &&::", " const &::". */
static const char *skip_qualifiers(const char *p)
{
	static const char *const words[] = {" const", " volatile", " &&", " &", " noexcept", NULL};
	const char *from = p;

	for (size_t i = 0; words[i]; i++) {
		if (begins_with(p, words[i])) {
			p += strlen(words[i]);
			i = (size_t)-1;
		}
	}
	return begins_with(p, "::") ? p : from;
}

struct extent {
	const char *start, *end;
};

static const char *skip_pointers(const char *p)
{
	return p + strspn(p, " *&");
}

/* Where the function's qualified name lies in "type name(arguments) rest". */
static struct extent find_name(const char *text)
{
	static const char *const endings[] = {" [", " mutable", " ->", " requires ", NULL};
	const char *start = text, *p = text;

	while (*p) {
		if (begins_with(p, "operator") && !is_word(p[8]) &&
		    (p == text || !is_word(p[-1]))) {
			p = skip_operator(p + 8);
		} else if (*p == '(') {
			const char *scope = skip_qualifiers(skip_bracket(p));

			if (begins_with(scope, "::"))
				p = scope; /* "f(int)::", "(anonymous namespace)::" */
			else if (p[1] == '*' || p[1] == '&')
				start = p = skip_pointers(p + 1); /* "char (*f(int))[3]" */
			else
				break;
		} else if (strchr("<{[", *p)) {
			p = skip_bracket(p);
		} else if (*p == ' ') {
			const char *scope = skip_qualifiers(p);

			/* a space ends the type before it, unless the rest qualifies the name */
			if (scope == p && text_begins_with_one_of(p, endings))
				break;
			p = scope == p ? skip_pointers(p) : scope;
			start = *scope == ' ' ? p : start;
		} else {
			p++;
		}
	}
	return (struct extent){start, p};
}

char *demangle_pretty(const char *pretty_function)
{
	struct extent name = find_name(pretty_function);

	if (name.start >= name.end)
		return strdup(pretty_function);
	return strndup(name.start, (size_t)(name.end - name.start));
}

struct sink {
	struct text text;
	jmp_buf full;
};

/* libiberty's printer cannot be stopped by its callback, and a few dozen bytes of nested
 * substitutions print for years: leave it by longjmp. It keeps everything on its stack. */
static void sink_add(const char *bytes, size_t size, void *opaque)
{
	struct sink *sink = opaque;

	if (size > TEXT_MAX - sink->text.length)
		longjmp(sink->full, 1);
	if (size) /* else `bytes` may be NULL */
		text_add_bytes(&sink->text, bytes, size);
	if (sink->text.failed)
		longjmp(sink->full, 1);
}

/* The name, cut at TEXT_MAX; false: it is not mangled, or memory is out (text.failed). */
static bool run_demangler(const char *mangled, struct sink *sink)
{
	if (setjmp(sink->full))
		return !sink->text.failed;
	if (rust_demangle_callback(mangled, 0, sink_add, sink))
		return true;
	sink->text.length = 0;
	return cplus_demangle_v3_callback(mangled, DMGL_ANSI, sink_add, sink);
}

bool demangle_applies(const char *symbol_name)
{
	return symbol_name[0] == '_' && (symbol_name[1] == 'Z' || symbol_name[1] == 'R');
}

/* "void f<int>(int)::{lambda()#1}" → from "f" on; "virtual thunk to A::f(int)" loses its "(int)".
 */
static void drop_types(struct text *whole)
{
	/* functions that the compiler adds: what follows is printed with type and arguments */
	static const char *const prefixes[] = {
		"non-virtual thunk to ",      "virtual thunk to ",
		"covariant return thunk to ", "TLS init function for ",
		"TLS wrapper function for ",  "transaction clone for ",
		"non-transaction clone for ", NULL};
	char *text = whole->data;
	struct extent name;
	size_t prefix = 0, size;

	for (size_t i = 0; !prefix && prefixes[i]; i++)
		if (begins_with(text, prefixes[i]))
			prefix = strlen(prefixes[i]);
	text += prefix;
	if (!prefix && (!strchr(text, '(') || !strchr(text, ' ')))
		return;
	name = find_name(text);
	if (!prefix)
		name.end = whole->data + whole->length;
	if (name.start >= name.end)
		return;
	size = (size_t)(name.end - name.start);
	memmove(text, name.start, size);
	text[size] = '\0';
	whole->length = prefix + size;
}

/* Only compiler suffixes have a dot in mangled names, except for Rust's legacy form,
 * "_ZN…core..fmt…17h<hash>E". */
static const char *find_suffix(const char *mangled)
{
	const char *hash = mangled;

	while ((hash = strstr(hash, "17h"))) {
		hash += 3;
		if (strspn(hash, "0123456789abcdef") == 16 && hash[16] == 'E' &&
		    (hash[17] == '.' || !hash[17]))
			return hash[17] ? hash + 17 : NULL;
	}
	return strchr(mangled, '.');
}

char *demangle(const char *symbol_name)
{
	const char *suffix = find_suffix(symbol_name);
	struct sink sink = {0};
	char *stem;
	bool done;

	if (!demangle_applies(symbol_name) || strnlen(symbol_name, TEXT_MAX) == TEXT_MAX)
		return strdup(symbol_name);
	stem = suffix ? strndup(symbol_name, (size_t)(suffix - symbol_name)) : strdup(symbol_name);
	if (!stem)
		return NULL;
	done = run_demangler(stem, &sink);
	free(stem);
	if (sink.text.failed || (done && sink.text.length)) {
		if (!sink.text.failed)
			drop_types(&sink.text);
		if (suffix && strlen(suffix) + 3 <= TEXT_MAX - sink.text.length)
			text_printf(&sink.text, " [%s]", suffix);
		return text_take(&sink.text);
	}
	text_clear(&sink.text);
	return strdup(symbol_name);
}

/* nvcc puts the stub's prefix before the kernel's mangled name, less an underscore, and clang
 * before its plain one. */
char *demangle_kernel(const char *symbol_name)
{
	static const char prefix[] = "__device_stub__";
	char *name = demangle(symbol_name), *at = name ? strstr(name, prefix) : NULL;
	char *rest = at ? at + strlen(prefix) : NULL, *kernel;

	if (!at)
		return name;
	if (*rest == 'Z') {
		kernel = demangle(rest - 1);
		if (!kernel || strcmp(kernel, rest - 1) != 0) {
			free(name);
			return kernel;
		}
		free(kernel);
	}
	memmove(at, rest, strlen(rest) + 1);
	return name;
}
