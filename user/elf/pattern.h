/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -F 'MODULE:GLOB': which functions of which files.
 *
 *   libtorch_cpu*:at::_ops::{mm,addmm}::call      MODULE glob on a file's names, GLOB on a symbol's
 *   train:*                                       '*' and '?' match ':' too
 *   malloc                                        without MODULE: every mapped file
 *   !libc*:str*                                   exclusion; applies whatever the order
 *   libfoo.so:/^foo_(a|b)$/                       POSIX extended regular expression on the name
 *
 * '*' any text, '?' any character, {a,b} alternatives, [a-z] [!a] sets, '\' takes away a meaning; a
 * '[' without ']' and braces without a comma outside parentheses stand for themselves (operator[],
 * {lambda(int, int)#1}).
 *
 * GLOB is matched against the symbol's name, mangled, or demangled without return type and
 * argument list. A GLOB that begins with "aten::" is matched against the labels of PyTorch's
 * operators (cost/operator_label.h), with and without their overload: aten::mm, aten::add,
 * aten::add.Tensor. The first ':' outside brackets (plain ones too: "f(int)::{lambda(auto:1)#1}")
 * that is no part of '::' divides MODULE from GLOB.
 */
#ifndef PERFX_ELF_PATTERN_H
#define PERFX_ELF_PATTERN_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct pattern;

/* NULL with errno EINVAL and a one-line reason in why. */
struct pattern *pattern__parse(const char *text, char *why, size_t why_size);
void pattern__free(struct pattern *pattern);
const char *pattern__text(const struct pattern *pattern); /* as the user wrote it */
/* The first GLOB without its wildcards; "" of a regular expression without a word. */
const char *pattern__plain_name(const struct pattern *pattern);
bool pattern__excludes(const struct pattern *pattern);
bool pattern__names_module(const struct pattern *pattern); /* has a MODULE part */

/* A file's names; MODULE matches either. */
struct module_names {
	const char *base;   /* of its path: libgomp.so.1.0.0 */
	const char *soname; /* DT_SONAME: libgomp.so.1; "" or NULL: none, or not known */
};
bool pattern__matches_module(const struct pattern *pattern, const struct module_names *module);

/* Mangled name in; demangles only when the text could match (a literal of the pattern must occur
 * in the mangled name), so that 530,000 symbols take tens of milliseconds, not seconds. */
bool pattern__matches_name(const struct pattern *pattern, const char *symbol_name);

/* Whether a GLOB names operators ("aten::…"). pattern__matches_name() never matches operators;
 * pattern__matches_operator() takes their label, "aten::add.Tensor". */
bool pattern__names_operators(const struct pattern *pattern);
bool pattern__matches_operator(const struct pattern *pattern, const char *label);
/* A cheap test before the label is made. joined: name and overload as in the symbol, "add_Tensor".
 * False: the operator cannot match. */
bool pattern__may_match_operator(const struct pattern *pattern, const char *joined);

/* Nearest names to a pattern that matched nothing: feed every candidate, then take the best few
 * (edit distance on the last component, case ignored, then on the whole name). */
struct nearest;
struct nearest *nearest__new(const struct pattern *pattern, size_t keep);
void nearest__offer(struct nearest *nearest, const char *symbol_name);
/* "a, b, c" demangled, best first; "" when nothing is near. Owned by nearest. */
const char *nearest__list(struct nearest *nearest);
void nearest__free(struct nearest *nearest);
/* The same of names from a table, at(0) until NULL: adds a few of those that are near to a word. */
void nearest_names(struct text *into, const char *word, const char *(*at)(size_t index));

#endif
