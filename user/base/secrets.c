// SPDX-License-Identifier: BSD-2-Clause
#include "base/secrets.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define WORDS_MAX 8
#define WORD_MAX  24

/* A key in words: "HF_TOKEN", "--api-key" and "apiKey" are [hf token], [api key], [api key]. */
struct words {
	char word[WORDS_MAX][WORD_MAX];
	size_t count;
};

static bool is_key_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Does a word begin at key[i]? */
static bool begins_word(const char *key, size_t i)
{
	if (!isalnum((unsigned char)key[i]))
		return false;
	if (i == 0 || !isalnum((unsigned char)key[i - 1]))
		return true;
	/* apiKey, HFToken */
	return isupper((unsigned char)key[i]) &&
	       (islower((unsigned char)key[i - 1]) || islower((unsigned char)key[i + 1]));
}

static void split_words(const char *key, size_t length, struct words *words)
{
	size_t used = 0;

	memset(words, 0, sizeof(*words));
	for (size_t i = 0; i < length; i++) {
		if (begins_word(key, i)) {
			/* only the last words matter */
			if (words->count == WORDS_MAX) {
				memmove(words->word[0], words->word[1],
					sizeof(words->word) - sizeof(words->word[0]));
				memset(words->word[WORDS_MAX - 1], 0, WORD_MAX);
				words->count--;
			}
			words->count++;
			used = 0;
		}
		if (words->count && isalnum((unsigned char)key[i]) && used + 1 < WORD_MAX)
			words->word[words->count - 1][used++] =
				(char)tolower((unsigned char)key[i]);
	}
}

static bool is_in(const char *word, const char *const *list)
{
	for (; *list; list++) {
		if (!strcmp(word, *list))
			return true;
	}
	return false;
}

static bool names_secret(const char *key, size_t length)
{
	static const char *const secret[] = {
		"password",  "passwd",	   "passphrase",  "passcode",	   "pwd",    "secret",
		"apikey",    "credential", "credentials", "authorization", "bearer", "cookie",
		"accesskey", "secretkey",  "privatekey",  "authtoken",	   "pat",    NULL};
	static const char *const kinds_of_key[] = {
		"api",		"access",  "secret",  "private",    "auth", "account",
		"storage",	"master",  "signing", "encryption", "ssh",  "service",
		"subscription", "license", "session", "shared",	    "hf",   "wandb",
		"openai",	"aws",	   "azure",   NULL};
	/* a tokenizer's */
	static const char *const no_tokens[] = {"eos",	"bos",	   "pad",  "unk", "sep",   "cls",
						"mask", "special", "stop", "end", "start", "image",
						"new",	"max",	   "num",  "min", "next",  "n",
						"per",	"single",  "user", NULL};
	struct words words;
	const char *last, *before;

	split_words(key, length, &words);
	if (!words.count)
		return false;
	last = words.word[words.count - 1];
	before = words.count > 1 ? words.word[words.count - 2] : "";
	if (is_in(last, secret))
		return true;
	/* alone: "first_pass" is something else */
	if (words.count == 1 && (!strcmp(last, "pass") || !strcmp(last, "auth")))
		return true;
	if (!strcmp(last, "token"))
		return !is_in(before, no_tokens);
	if (!strcmp(last, "key"))
		return is_in(before, kinds_of_key);
	return false;
}

/* Replaces [from, to) by "***"; returns what follows. */
static char *blot(char *from, char *to)
{
	size_t length = (size_t)(to - from), stars = length < 3 ? length : 3;

	memset(from, '*', stars);
	memmove(from + stars, to, strlen(to) + 1);
	return from + stars;
}

/* Where a value ends that begins here: at its closing quote, at what divides it from others, or
 * with the argument when it is all of the argument. */
static char *value_end(char *value, char quote, bool to_the_end)
{
	if (quote) {
		char *end = strchr(value, quote);

		return end ? end : value + strlen(value);
	}
	return value + (to_the_end ? strlen(value) : strcspn(value, " \t\n&,;'\"}"));
}

/*
 * key=value, key: value, "key": "value". `begin` is the argument's, at the last character of a key.
 * A header's value ("Authorization: Bearer x") contains spaces: it goes on to the end.
 */
static char *hide_after_key(char *begin, char *key, char *end)
{
	char *p = end, quote = 0, separator;

	if (!names_secret(key, (size_t)(end - key)))
		return end;
	if (*p == '"' || *p == '\'')
		p++;
	p += strspn(p, " ");
	separator = *p;
	if (separator != '=' && separator != ':')
		return end;
	p++;
	if (separator == ':' && (*p == ':' || *p == '/'))
		return end; /* C++'s or a URL's */
	p += strspn(p, " ");
	if (*p == '"' || *p == '\'')
		quote = *p++;
	if (!*p)
		return p;
	return blot(p, value_end(p, quote, key == begin || separator == ':'));
}

/* --password VALUE: does the argument announce that the next one is secret? */
static bool announces_secret(const char *argument)
{
	size_t length = strlen(argument);

	if (argument[0] != '-' || strspn(argument, "-") == length)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!is_key_char(argument[i]))
			return false;
	}
	return names_secret(argument, length);
}

struct prefix {
	const char *text;
	size_t least; /* characters behind it, or it is something else */
};

/* Values that are secrets by their form. */
static bool is_known_token(const char *text, size_t length)
{
	static const struct prefix prefixes[] = {
		{"hf_", 20},   {"sk-", 16},	    {"ghp_", 20},   {"gho_", 20},   {"ghs_", 20},
		{"ghu_", 20},  {"github_pat_", 20}, {"glpat-", 16}, {"xoxb-", 16},  {"xoxp-", 16},
		{"AKIA", 16},  {"ASIA", 16},	    {"AIza", 30},   {"npm_", 30},   {"pypi-", 30},
		{"ya29.", 20}, {"dapi", 32},	    {"r8_", 30},    {"nvapi-", 30}, {"eyJ", 40},
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t prefix = strlen(prefixes[i].text);

		if (!strncmp(text, prefixes[i].text, prefix) &&
		    length >= prefix + prefixes[i].least)
			return true;
	}
	return false;
}

static char *hide_token(char *token)
{
	char *end;

	token += strspn(token, "-");
	for (end = token; is_key_char(*end); end++)
		;
	return is_known_token(token, (size_t)(end - token)) ? blot(token, end) : end;
}

/* scheme://user:PASSWORD@host */
static void hide_url_password(char *argument)
{
	char *p = argument, *colon, *at;

	while ((p = strstr(p, "://"))) {
		p += 3;
		colon = p + strcspn(p, ":/?# \t\n");
		if (*colon != ':')
			continue;
		at = colon + strcspn(colon, "@/?# \t\n");
		if (*at == '@')
			p = blot(colon + 1, at);
	}
}

/* "Bearer x", wherever it stands. */
static void hide_bearer(char *argument)
{
	char *p = argument;

	while ((p = strcasestr(p, "bearer "))) {
		p += strlen("bearer ");
		if (strcspn(p, " \t\n'\",") >= 8)
			p = blot(p, value_end(p, 0, false));
	}
}

static void hide_in(char *argument)
{
	char *p = argument, *end, *behind;

	hide_url_password(argument);
	hide_bearer(argument);
	while (*p) {
		for (end = p; is_key_char(*end); end++)
			;
		if (end == p) {
			p++;
			continue;
		}
		behind = hide_after_key(argument, p, end);
		p = behind == end ? hide_token(p) : behind;
	}
}

void secrets_hide(char **arguments)
{
	for (; *arguments; arguments++) {
		char *next = arguments[1];

		if (next && *next && next[0] != '-' && announces_secret(*arguments))
			blot(next, next + strlen(next));
		hide_in(*arguments);
	}
}
