// SPDX-License-Identifier: BSD-2-Clause
#include "base/secrets.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Lists of words are texts such as "|a|b|". */

static bool is_listed(const char *list, const char *word, size_t length)
{
	char entry[48];

	if (length + 3 > sizeof(entry))
		return false;
	snprintf(entry, sizeof(entry), "|%.*s|", (int)length, word);
	return strstr(list, entry) != NULL;
}

static bool is_in(const char *word, const char *list)
{
	return is_listed(list, word, strlen(word));
}

/* The first word of a list, which then begins after it; NULL: no word is left. */
static const char *next_listed(const char **list, size_t *length)
{
	const char *word = *list + 1;

	*length = strcspn(word, "|");
	*list = word + *length;
	return *length ? word : NULL;
}

static bool is_key_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'';
}

/* Replaces [from, to) by "***", or by as many stars as it has bytes. Returns their end. */
static char *mask(char *from, char *to)
{
	size_t length = (size_t)(to - from), stars = length < 3 ? length : 3;

	memset(from, '*', stars);
	memmove(from + stars, to, strlen(to) + 1);
	return from + stars;
}

#define WORDS_MAX 8
#define WORD_MAX  24

/* A key in words: "HF_TOKEN", "--api-key" and "apiKey" are [hf token], [api key], [api key]. */
struct words {
	char word[WORDS_MAX][WORD_MAX];
	size_t count;
	char joined[WORDS_MAX * WORD_MAX]; /* all words: "hftoken" */
};

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
	for (size_t i = 0; i < words->count; i++)
		strcat(words->joined, words->word[i]);
}

/* Does the key name a secret? LIKELY: not if the value is a short number, a switch or similar. */
enum certainty { ORDINARY, LIKELY, SURE };

/* Does the text contain a word of the list that is followed by the ending? */
static bool contains_listed(const char *text, const char *list, const char *ending)
{
	const char *word;
	size_t length;
	char part[WORD_MAX];

	while ((word = next_listed(&list, &length))) {
		snprintf(part, sizeof(part), "%.*s%s", (int)length, word, ending);
		if (strstr(text, part))
			return true;
	}
	return false;
}

/* Has the key a part that marks a secret at any position? PGPASSWORD, --clientsecret. */
static bool has_secret_part(const struct words *words)
{
	static const char parts[] =
		"|password|passwd|passphrase|passcode|passwort|secret|credential|creds|"
		"authorization|bearer|cookie|authtoken|accesstoken|refreshtoken|sessiontoken|"
		"securitytoken|sharedaccess|connectionstring|connstr|requirepass|mnemonic|webhook|"
		"passkey|";
	static const char owners_of_keys[] =
		"|api|access|private|auth|account|storage|master|signing|signature|encryption|"
		"decryption|ssh|service|subscription|license|session|shared|hf|wandb|openai|"
		"anthropic|gemini|google|cohere|mistral|groq|aws|azure|comet|neptune|datadog|"
		"sendgrid|twilio|stripe|deploy|admin|root|jwt|hmac|rsa|consumer|instrumentation|"
		"function|functions|";

	for (size_t i = 0; i < words->count; i++)
		if (is_in(words->word[i], "|secretary|cookiecutter|passwordless|"))
			return false;
	return contains_listed(words->joined, parts, "") ||
	       contains_listed(words->joined, owners_of_keys, "key");
}

/* The word without its end, such as "token" or "pass"; NULL: it ends differently. */
static const char *stem_of(const char *word, const char *end, char *stem)
{
	size_t length = strlen(word), end_length = strlen(end);

	if (length < end_length || strcmp(word + length - end_length, end) != 0)
		return NULL;
	snprintf(stem, WORD_MAX, "%.*s", (int)(length - end_length), word);
	return stem;
}

static enum certainty classify_key(const char *key, size_t length)
{
	/* --password-file, --token-type: they describe a secret but hold none */
	static const char about[] =
		"|file|files|path|dir|directory|folder|name|names|length|len|size|count|type|"
		"types|policy|ttl|timeout|expiry|mode|env|field|column|prompt|store|version|"
		"provider|backend|manager|helper|stdin|method|format|jar|ids|budget|prob|weight|"
		"dim|enabled|";
	/* tokens of a tokenizer, or limits of a service */
	static const char tokens[] =
		"|eos|bos|pad|unk|sep|cls|mask|special|stop|end|start|image|new|max|num|min|next|"
		"n|per|single|placeholder|trigger|initializer|target|class|begin|first|last|"
		"global|register|decoder|forced|lang|language|src|tgt|speaker|audio|video|text|"
		"word|byte|unknown|separator|newline|blank|prefix|suffix|middle|fim|sot|eot|eod|"
		"eop|chat|think|tool|draft|top|total|avg|extra|added|prompt|instance|modifier|"
		"object|concept|style|";
	static const char passes[] =
		"|first|second|last|single|one|two|multi|num|n|forward|backward|fwd|bwd|max|per|"
		"min|low|high|band|all|full|fused|opt|dry|extra|final|by|com|encom|sur|tres|over|"
		"under|train|eval|test|training|inference|optimization|compile|graph|warmup|";
	struct words words;
	char stem[WORD_MAX];
	const char *last, *before;

	split_words(key, length, &words);
	if (!words.count)
		return ORDINARY;
	last = words.word[words.count - 1];
	before = words.count > 1 ? words.word[words.count - 2] : "";
	if (is_in(last, about) ||
	    is_in(words.word[0], "|no|ask|prompt|require|disable|skip|without|"))
		return ORDINARY;
	if (has_secret_part(&words) ||
	    is_in(last, "|pat|otp|totp|psk|jwt|sas|pw|passw|pswd|pword|") ||
	    stem_of(last, "pwd", stem))
		return SURE;
	if (!strcmp(last, "tokens"))
		return is_in(before, "|api|auth|access|bearer|hf|") ? SURE : ORDINARY;
	if (stem_of(last, "token", stem)) {
		if (is_in(stem[0] ? stem : before, tokens))
			return ORDINARY;
		return stem[0] || !*before ? SURE : LIKELY;
	}
	/* "pass" alone or with an owner; "first_pass" is no secret */
	if (stem_of(last, "pass", stem))
		return is_in(stem[0] ? stem : before, passes) ? ORDINARY : SURE;
	if (stem_of(last, "auth", stem) || !strcmp(last, "dsn"))
		return LIKELY;
	return ORDINARY;
}

/* Is the value no secret, although its key could name one? */
static bool is_ordinary_value(enum certainty certainty, const char *value, size_t length)
{
	static const char switches[] = "|yes|no|on|off|auto|basic|digest|ntlm|oauth|oauth2|"
				       "kerberos|bearer|jwt|gssapi|";
	char word[16] = "";

	if (!length)
		return true;
	for (size_t i = 0; i < length && length < sizeof(word); i++)
		word[i] = (char)tolower((unsigned char)value[i]);
	if (is_in(word, "|true|false|none|null|"))
		return true;
	if (certainty == SURE)
		return false;
	return is_in(word, switches) || value[0] == '<' || value[0] == '[' ||
	       (length <= 6 && strspn(value, "0123456789") >= length);
}

struct argument {
	char *begin;
	bool is_script; /* of sh -c: blanks separate words */
};

/* Does the divider end a value? Before "key=" it does; in "a,b" it may be a part of the value. */
static bool divider_ends_value(const char *divider)
{
	const char *p = divider + 1;

	if (!*p || isspace((unsigned char)*p) || is_quote(*p) || *p == '}' || *p == *divider)
		return true;
	while (is_key_char(*p))
		p++;
	return p > divider + 1 && (*p == '=' || *p == ':');
}

static char *closing_quote(char *value, char quote)
{
	for (; *value && *value != quote; value++)
		if (*value == '\\' && value[1] == quote)
			break; /* escaped, in a quoted text: \"key\": \"value\" */
	return value;
}

/* The end of an unquoted value. */
static char *value_end(char *value, bool blanks_belong)
{
	char *p = value;

	for (; *p; p++) {
		if (isspace((unsigned char)*p) && !blanks_belong)
			break;
		if (is_quote(*p) || *p == '}')
			break;
		if (strchr("&,;", *p) && divider_ends_value(p))
			break;
	}
	return p;
}

/* $NAME, ${NAME} and $(command) in a script do not contain the value itself. */
static bool is_reference(const char *value, size_t length)
{
	return length > 1 && value[0] == '$' &&
	       (isalpha((unsigned char)value[1]) || strchr("_{(", value[1]));
}

/* The end of the value that begins at `value` and belongs to the key at `key`. A header's value,
 * "Authorization: Bearer x", may contain blanks, and so may a value that is the whole argument. */
static char *end_of_value(const struct argument *argument, char *key, char separator, char *value)
{
	char around = key > argument->begin && is_quote(key[-1]) ? key[-1] : 0;
	bool is_header = separator == ':' &&
			 memchr(argument->begin, '{', (size_t)(key - argument->begin)) == NULL;

	if (around)
		return closing_quote(value, around);
	if (!argument->is_script &&
	    (is_header || key == argument->begin || argument->begin[0] == '-'))
		return value + strlen(value);
	return value_end(value, is_header);
}

/* Keys that name a secret only in the query of a URL. */
static bool is_url_secret(const struct argument *argument, const char *key, const char *end)
{
	char word[16] = "";

	if (key == argument->begin || !strchr("?&", key[-1]) || (size_t)(end - key) >= sizeof(word))
		return false;
	memcpy(word, key, (size_t)(end - key));
	for (char *p = word; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return is_in(word, "|sig|signature|key|code|auth|");
}

/* X-Amz-Signature, Signature=: a signature is long, a short value is something else. */
static bool is_signature(const char *key, const char *end, const char *value)
{
	struct words words;

	split_words(key, (size_t)(end - key), &words);
	return words.count &&
	       (!strcmp(words.word[words.count - 1], "signature") ||
		!strcmp(words.word[words.count - 1], "sig")) &&
	       strcspn(value, " &,;'\"") >= 16;
}

/* Hides a secret value of the key [key, end): key=value, key: value, "key": "value", key:=value.
 * Returns the position at which the scan continues; `end`: nothing was hidden. */
static char *hide_after_key(const struct argument *argument, char *key, char *end)
{
	enum certainty certainty = classify_key(key, (size_t)(end - key));
	char *p = end, separator, quote = 0, *value_to;

	if (*p == '\\')
		p++;
	if (is_quote(*p))
		p++;
	p += strspn(p, " ");
	separator = *p;
	if (separator != '=' && separator != ':')
		return end;
	p++;
	if (separator == ':' && (*p == ':' || *p == '/'))
		return end; /* C++'s or a URL's */
	p += strspn(p, "=>");
	p += strspn(p, " ");
	if (*p == '\\' && is_quote(p[1]))
		p++;
	if (is_quote(*p))
		quote = *p++;
	else if (*p == '[' && separator == ':')
		quote = ']';
	if (!certainty && is_url_secret(argument, key, end))
		certainty = LIKELY;
	if (!certainty && is_signature(key, end, p))
		certainty = SURE;
	if (!certainty ||
	    (*p == '/' && is_listed("|PWD|OLDPWD|", key, (size_t)(end - key)))) /* folders */
		return end;
	value_to = quote ? closing_quote(p, quote) : end_of_value(argument, key, separator, p);
	if (argument->is_script && is_reference(p, (size_t)(value_to - p)))
		return end;
	if (quote != ']' && is_ordinary_value(certainty, p, (size_t)(value_to - p)))
		return end;
	return mask(p, value_to);
}

/* Does the text begin with the prefix of a service's tokens, and is it long enough? */
static bool is_known_token(const char *text, size_t length)
{
	static const struct {
		size_t least; /* characters after the prefix, or it is something else */
		const char *prefixes;
	} services[] = {
		{10, "|sk_live_|sk_test_|rk_live_|rk_test_|"},
		{12, "|LTAI|"},
		{16, "|sk-|whsec_|glpat-|gldt-|glrt-|xoxb-|xoxp-|xoxa-|xoxr-|xoxs-|xoxe|xapp-|"
		     "AKIA|ASIA|ABIA|dckr_pat_|tskey-|"},
		{20, "|hf_|api_org_|ghp_|gho_|ghs_|ghu_|ghr_|github_pat_|glsa_|glc_|GOCSPX-|ya29.|"
		     "gsk_|xai-|pplx-|tgp_v1_|pcsk_|jina_|lsv2_|wandb_v1_|hvs.|hvb.|dop_v1_|"
		     "doo_v1_|shpat_|shpss_|figd_|PMAK-|NRAK-|ATATT3|ATBB|ntn_|sbp_|sntrys_|"
		     "sntryu_|nfp_|rnd_|AGE-SECRET-KEY-|dp.pt.|"},
		{30, "|AIza|npm_|pypi-|r8_|nvapi-|SG.|secret_|"},
		{32, "|dapi|key-|"},
		{36, "|eyJ|"},
	};
	const char *list, *prefix;
	size_t prefix_length;

	for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
		for (list = services[i].prefixes; (prefix = next_listed(&list, &prefix_length));)
			if (length >= prefix_length + services[i].least &&
			    !strncmp(text, prefix, prefix_length))
				return true;
	return false;
}

/* Random texts change between capitals, small letters and digits more often than names of models
 * and runs, and have fewer separators. Hexadecimal digests (git, sha256, UUIDs) are not hidden. */
static bool is_random(const char *text, size_t length)
{
	size_t upper = 0, lower = 0, digits = 0, hex = 0, changes = 0, all;
	int last = 0;

	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		int kind = isupper(c) ? 1 : islower(c) ? 2 : isdigit(c) ? 3 : 0;

		upper += kind == 1;
		lower += kind == 2;
		digits += kind == 3;
		hex += isxdigit(c) != 0;
		changes += kind && last && kind != last;
		last = kind ? kind : last;
	}
	all = upper + lower + digits;
	if (all < 20 || hex == all || (length - all) * 8 > all || digits < 2)
		return false;
	if (upper && lower)
		return changes * 2 >= all;
	return all == length && all >= 24 && digits >= 4 && changes * 100 >= all * 32;
}

/* The length of a Base64 text: long, with '+' in it or '=' at its end, unlike a name. 0: none. */
static size_t base64_length(const char *text)
{
	size_t length = 0, slashes = 0, pluses = 0, padding, digits = 0, upper = 0, lower = 0;

	for (; isalnum((unsigned char)text[length]) ||
	       strchr("+/", text[length] ? text[length] : ' ');
	     length++) {
		digits += isdigit((unsigned char)text[length]) != 0;
		upper += isupper((unsigned char)text[length]) != 0;
		lower += islower((unsigned char)text[length]) != 0;
		slashes += text[length] == '/';
		pluses += text[length] == '+';
	}
	padding = strspn(text + length, "=");
	if (text[length + padding] && !strchr(" \t\n,;&'\"}", text[length + padding]))
		return 0;
	if (length < 20 || !upper || !lower || !digits || padding > 2 || text[0] == '/')
		return 0;
	return padding || (pluses && slashes * 10 < length) ? length + padding : 0;
}

static char *hide_token(const struct argument *argument, char *token)
{
	size_t base64 = 0, length = 0;
	const char *dot;
	bool in_path;

	token += strspn(token, "-");
	if (token == argument->begin || strchr(" =:,'\"", token[-1]))
		base64 = base64_length(token);
	if (base64)
		return mask(token, token + base64);
	while (is_key_char(token[length]))
		length++;
	dot = memrchr(token, '.', length);
	/* file names and parts of paths may look random */
	in_path = (token > argument->begin && token[-1] == '/') || token[length] == '/' ||
		  (dot && token + length - dot <= 6);
	if (is_known_token(token, length) || (!in_path && is_random(token, length)))
		return mask(token, token + length);
	return token + length;
}

/* The '@' before the host of a URL whose authority begins at p; NULL: it has no user. An unescaped
 * password may contain '/'; digits after ':' are a port. */
static char *host_at_sign(char *p)
{
	char *end = p + strcspn(p, "/?# \t\n'\"");
	char *mark = memrchr(p, '@', (size_t)(end - p)), *colon;

	if (mark)
		return mark;
	colon = memchr(p, ':', (size_t)(end - p));
	if (!colon || colon + 1 + strspn(colon + 1, "0123456789") == end)
		return NULL;
	end = colon + strcspn(colon, " \t\n'\"");
	return memrchr(colon, '@', (size_t)(end - colon));
}

/* scheme://user:PASSWORD@host, scheme://TOKEN@host */
static void hide_url_user(char *argument)
{
	char *p = argument;

	while ((p = strstr(p, "://"))) {
		char *mark, *colon;

		p += 3;
		mark = host_at_sign(p);
		colon = mark ? memchr(p, ':', (size_t)(mark - p)) : NULL;
		if (!mark)
			continue;
		if (colon && mark > colon + 1)
			mask(colon + 1, mark);
		if (is_known_token(p, (size_t)((colon ? colon : mark) - p)) ||
		    (colon ? colon : mark) - p >= 20)
			p = mask(p, colon ? colon : mark);
	}
}

/* Webhook paths are secrets: anyone who knows one can post to it. */
static void hide_url_path(char *argument)
{
	static const char *const hooks[] = {"hooks.slack.com/services/", "/api/webhooks/",
					    "api.telegram.org/bot", "webhook.office.com/", NULL};

	for (size_t i = 0; hooks[i]; i++) {
		char *p = strstr(argument, hooks[i]);

		if (!p)
			continue;
		p += strlen(hooks[i]);
		mask(p, p + strcspn(p, " \t\n'\""));
	}
}

/* user:PASSWORD@host without a scheme, but not image:tag@sha256:… */
static void hide_user_at_host(char *argument)
{
	for (char *p = argument; *p; p += strcspn(p, " =\t\n"), p += *p != '\0') {
		char *colon = p + strcspn(p, ":/@ =\t\n'\""), *mark;

		if (colon == p || *colon != ':' || colon[1] == '/')
			continue;
		mark = colon + strcspn(colon, "@/ \t\n'\"");
		if (*mark == '@' && mark > colon + 1 && isalnum((unsigned char)mark[1]) &&
		    strncmp(mark + 1, "sha256:", 7) != 0)
			p = mask(colon + 1, mark);
	}
}

static void hide_in(const struct argument *argument)
{
	char *p = argument->begin, *end, *behind;

	end = strstr(p, "PRIVATE KEY-----");
	if (end)
		mask(end, end + strlen(end));
	hide_url_user(p);
	hide_user_at_host(p);
	hide_url_path(p);
	for (char *bearer = p; (bearer = strcasestr(bearer, "bearer "));) {
		bearer += strlen("bearer ");
		if (strcspn(bearer, " \t\n'\",") >= 8)
			mask(bearer, value_end(bearer, false));
	}
	while (*p) {
		for (end = p; is_key_char(*end); end++)
			;
		if (end == p) {
			p++;
			continue;
		}
		behind = hide_after_key(argument, p, end);
		p = behind == end ? hide_token(argument, p) : behind;
	}
}

/* The kind of value expected in the next word. */
enum value { VALUE_NONE, VALUE_LIKELY, VALUE_SURE, VALUE_USER, VALUE_ASSIGNED, VALUE_ANY };

/* Options with secret values whose names do not show it, by program. */
struct program_option {
	const char *programs, *options; /* "|a|b|" */
	const char *after;		/* only after this word; NULL: anywhere */
	enum value value;
	bool apart, attached; /* -p x, -px */
};

static const struct program_option program_options[] = {
	{"|mysql|mysqldump|mysqladmin|mysqlimport|mysqlcheck|mysqlshow|mysqlpump|mysqlslap|mariadb|"
	 "mariadb-dump|mariadb-admin|mycli|7z|7za|7zr|rar|unrar|",
	 "|-p|", NULL, VALUE_ANY, false, true},
	{"|rar|unrar|", "|-hp|", NULL, VALUE_ANY, false, true},
	{"|mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport|mongostat|cqlsh|twine|"
	 "sshpass|impala-shell|rabbitmqadmin|lftp|",
	 "|-p|", NULL, VALUE_ANY, true, true},
	{"|redis-cli|valkey-cli|keydb-cli|redis-benchmark|", "|-a|", NULL, VALUE_ANY, true, true},
	{"|docker|podman|nerdctl|buildah|skopeo|helm|oc|az|crane|oras|kubectl|cf|", "|-p|", "login",
	 VALUE_ANY, true, true},
	{"|vault|wandb|cargo|", "|login|", NULL, VALUE_SURE, true, false},
	{"|unzip|zip|bcp|sqlcmd|mosquitto_pub|mosquitto_sub|ipmitool|ssh-keygen|", "|-P|", NULL,
	 VALUE_ANY, true, true},
	{"|ssh-keygen|", "|-N|", NULL, VALUE_ANY, true, true},
	{"|ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd|ldapcompare|", "|-w|",
	 NULL, VALUE_ANY, true, true},
	{"|curl|", "|-b|--pass|--proxy-pass|", NULL, VALUE_ANY, true, false},
	{"|curl|", "|-E|--cert|--proxy-cert|", NULL, VALUE_USER, true, false},
	{"|http|https|xh|", "|-a|--auth|", NULL, VALUE_ANY, true, true},
	{"|smbclient|rpcclient|lftp|", "|-U|-u|", NULL, VALUE_USER, true, true},
	{"|openssl|", "|-k|-pass|-passin|-passout|", NULL, VALUE_ANY, true, false},
	{"|snmpget|snmpwalk|snmpset|snmpbulkwalk|", "|-A|-X|-c|", NULL, VALUE_ANY, true, true},
	{"|xfreerdp|xfreerdp3|wlfreerdp|", "|/p:|", NULL, VALUE_ANY, false, true},
	{"|influx|doctl|", "|-t|", NULL, VALUE_ANY, true, false},
	{"|gh|", "|-b|--body|", "secret", VALUE_ANY, true, true},
	{"|kubectl|oc|", "|--from-literal|", NULL, VALUE_ASSIGNED, true, false},
};

/* State of the scan of a command line. */
struct scan {
	char program[WORD_MAX]; /* "|name|"; "": none in program_options */
	bool after_login, after_secret;
	enum value next;
};

static void note_program(struct scan *scan, const char *word, size_t length)
{
	const char *slash = memrchr(word, '/', length);
	const char *name = slash ? slash + 1 : word;

	length -= (size_t)(name - word);
	for (size_t i = 0; i < sizeof(program_options) / sizeof(*program_options); i++) {
		if (!length || length + 3 > sizeof(scan->program) ||
		    !is_listed(program_options[i].programs, name, length))
			continue;
		*scan = (struct scan){0};
		snprintf(scan->program, sizeof(scan->program), "|%.*s|", (int)length, name);
		return;
	}
}

/* Keeps the user's name: "me:PASSWORD", "me%PASSWORD". Two numbers are ids for docker's --user. */
static char *hide_after_user(char *value, char *end)
{
	size_t name = strcspn(value, ":%,");
	char *at = value + name;

	if (at + 1 >= end || !strncmp(at, "://", 3) || value + strspn(value, "0123456789:") >= end)
		return end;
	return mask(at + 1, end);
}

static bool is_user_option(const char *option, size_t length)
{
	return is_listed("|-u|-U|--user|--proxy-user|--userpwd|--basic-auth|--auth|--login|",
			 option, length);
}

/* The value of -uNAME:PASSWORD, or of curl's -suNAME:PASSWORD; NULL: the word is neither. */
static char *attached_user(const struct scan *scan, char *word, const char *end)
{
	char *p = word + 1;

	if (word[0] != '-' || word[1] == '-')
		return NULL;
	if (!strcmp(scan->program, "|curl|"))
		p += strcspn(p, "uU:");
	if ((*p != 'u' && *p != 'U') || p + 1 >= end || !memchr(p, ':', (size_t)(end - p)))
		return NULL;
	return p + 1;
}

/* Hides the value that the previous word requires. Returns its new end; NULL: it is no value. */
static char *hide_expected_value(enum value value, bool is_script, char *word, char *end)
{
	size_t length = (size_t)(end - word);
	enum certainty certainty = value == VALUE_LIKELY ? LIKELY : SURE;
	char *sign;

	if (value == VALUE_NONE || (is_script && is_reference(word, length)))
		return NULL;
	/* "--verbose" after "--ask-password" is an option; a secret may begin with one dash */
	if (value != VALUE_ANY && word[0] == '-' &&
	    (value == VALUE_LIKELY || length == 1 || word[1] == '-'))
		return NULL;
	if (value == VALUE_USER)
		return hide_after_user(word, end);
	if (value == VALUE_ASSIGNED) {
		sign = memchr(word, '=', length);
		return sign ? mask(sign + 1, end) : end;
	}
	return value != VALUE_ANY && is_ordinary_value(certainty, word, length) ? end
										: mask(word, end);
}

/* Applies program_options: hides a value in the word, or expects it in the next word. Returns the
 * word's new end; NULL: it is no option in the table. */
static char *hide_by_program(struct scan *scan, char *word, char *end)
{
	size_t length = (size_t)(end - word);
	char *sign = memchr(word, '=', length);

	for (size_t i = 0; i < sizeof(program_options) / sizeof(*program_options); i++) {
		const struct program_option *option = &program_options[i];
		size_t name = word[0] == '/' ? 3 : 2;

		if (!scan->program[0] || !strstr(option->programs, scan->program))
			continue;
		if (option->after &&
		    !(!strcmp(option->after, "login") ? scan->after_login : scan->after_secret))
			continue;
		if (option->apart && is_listed(option->options, word, length)) {
			scan->next = option->value;
			return end;
		}
		if (option->apart && sign &&
		    is_listed(option->options, word, (size_t)(sign - word)))
			return hide_expected_value(option->value, false, sign + 1, end);
		if (length > 3 && !strncmp(word, "-hp", 3))
			name = 3;
		if (!option->attached || length <= name || word[1] == '-' ||
		    !is_listed(option->options, word, name))
			continue;
		return option->value == VALUE_USER ? hide_after_user(word + name, end)
						   : mask(word + name, end);
	}
	return NULL;
}

/* The value expected after a word: --password VALUE, aws_secret_access_key VALUE. */
static enum value value_expected_after(const char *word, size_t length)
{
	bool is_option = word[0] == '-' && strspn(word, "-") < length;
	enum certainty certainty;

	for (size_t i = 0; i < length; i++)
		if (!is_key_char(word[i]))
			return VALUE_NONE;
	if (is_option && is_user_option(word, length))
		return VALUE_USER;
	certainty = classify_key(word, length);
	if (is_option)
		return certainty == SURE     ? VALUE_SURE
		       : certainty == LIKELY ? VALUE_LIKELY
					     : VALUE_NONE;
	/* a word without a dash must be the name of a setting */
	return certainty == SURE && (memchr(word, '_', length) ||
				     is_listed("|password|passphrase|requirepass|masterauth|", word,
					       length))
		       ? VALUE_SURE
		       : VALUE_NONE;
}

/* Scans one word of a command line. Returns its end, which moves back if something is hidden. */
static char *scan_word(struct scan *scan, bool is_script, char *word, char *end)
{
	size_t length = (size_t)(end - word);
	enum value value = scan->next;
	char *new_end, *sign, *user;

	scan->next = VALUE_NONE;
	new_end = hide_expected_value(value, is_script, word, end);
	if (new_end)
		return new_end;
	if (is_listed("|;|&&||||&|", word, length))
		*scan = (struct scan){0};
	note_program(scan, word, length);
	/* wandb login KEY: 40 hexadecimal digits, as many as a commit's hash */
	if (scan->after_login && length >= 32 && strspn(word, "0123456789abcdef") >= length)
		return mask(word, end);
	scan->after_login |= is_listed("|login|", word, length);
	scan->after_secret |= is_listed("|secret|", word, length);
	new_end = hide_by_program(scan, word, end);
	if (new_end)
		return new_end;
	user = attached_user(scan, word, end);
	if (user)
		return hide_after_user(user, end);
	sign = word[0] == '-' ? memchr(word, '=', length) : NULL;
	if (sign && is_user_option(word, (size_t)(sign - word)))
		return hide_after_user(sign + 1, end);
	scan->next = value_expected_after(word, length);
	if (!strcmp(scan->program, "|curl|") && length > 2 && word[0] == '-' && word[1] != '-' &&
	    strchr("uU", word[length - 1]))
		scan->next = VALUE_USER; /* -su NAME:PASSWORD */
	return end;
}

/* Scans the words of a script, each without the quotes around it. */
static void scan_script(char *script)
{
	struct scan scan = {0};
	char *p = script, *end;

	for (;;) {
		bool is_quoted;

		p += strspn(p, " \t\n");
		if (!*p)
			return;
		end = p;
		for (; *end && !isspace((unsigned char)*end); end++)
			if (is_quote(*end) && *closing_quote(end + 1, *end))
				end = closing_quote(end + 1, *end);
		is_quoted = is_quote(*p) && closing_quote(p + 1, *p) == end - 1;
		p = scan_word(&scan, true, p + is_quoted, end - is_quoted) + is_quoted;
	}
}

void secrets_hide(char **arguments)
{
	struct scan scan = {0};
	bool after_dash_c = false;

	for (; *arguments; arguments++) {
		char *word = *arguments;
		size_t length = strlen(word);
		bool has_blanks = strpbrk(word, " \t\n") != NULL,
		     is_value = scan.next != VALUE_NONE;
		struct argument argument = {word, .is_script = after_dash_c && has_blanks};

		/* sh -c SCRIPT, bash -lc SCRIPT */
		after_dash_c = word[0] == '-' && word[1] != '-' && length >= 2 && length <= 4 &&
			       word[length - 1] == 'c';
		scan_word(&scan, false, word, word + length);
		if (!is_value && strpbrk(word, " \t\n"))
			scan_script(word);
		hide_in(&argument);
	}
}
