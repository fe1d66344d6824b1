/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that are steps of training or units of inference, and functions that are traced as by
 * default: the built-in rules (operators.txt) and, before them, those of the user's file
 * (--operators). One rule a line, which lines that begin with a blank continue; '#' begins a
 * comment:
 *
 *	# MODULE:GLOB (as for -F, without blanks), then what a call of it is
 *	libmine.so:mine::train_round   step        its end is the end of a step
 *	libserve.so*:handle_batch      inference   one unit of inference
 *	libmine.so:mine::attention*    operator    traced, and nothing else
 *	libnone.so:engine::run   inference  text "Running model "
 *
 * With `text` GLOB is only the name to show: the function is the one whose code refers to that
 * constant, in a file that has no symbols. The first rule that names a function applies.
 */
#ifndef PERFX_PLAN_OPERATORS_H
#define PERFX_PLAN_OPERATORS_H

#include "elf/pattern.h"

#include <stdbool.h>
#include <stddef.h>

enum operator_kind {
	OPERATOR_CALLS = 1, /* "operator" */
	OPERATOR_STEP,
	OPERATOR_INFERENCE,
};

struct operator_rule {
	struct pattern *pattern;
	enum operator_kind kind;
	const char *text; /* the constant; NULL: found by its name */
	bool built_in;
};

struct operators;

/* path NULL: the built-in rules alone. NULL with errno; in why one line that says which file and
 * line, what is wrong and what to do (EINVAL, or why the file cannot be read). */
struct operators *operators__load(const char *path, char *why, size_t why_size);
void operators__free(struct operators *operators);

/* In order; NULL after the last. NULL-tolerant, as all below. */
const struct operator_rule *operators__rule(const struct operators *operators, size_t index);

/* Does a rule name functions of this file? by_user: a rule of the user's file. */
bool operators__name_module(const struct operators *operators, const struct module_names *module,
			    bool by_user);

/* The rule of a function, mangled name in; NULL: there is none. */
const struct operator_rule *operators__find(const struct operators *operators,
					    const struct module_names *module, const char *symbol);

/* Adds the beginnings of the mangled names in the built-in rules. 0 or -ENOMEM. */
struct prefixes;
int operators__prefixes(const struct operators *operators, struct prefixes *set);

#endif
