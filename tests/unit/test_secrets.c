// SPDX-License-Identifier: BSD-2-Clause
#include "base/secrets.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 4

struct line {
	const char *given[ARGUMENTS_MAX], *hidden[ARGUMENTS_MAX];
};

static void check(const struct line *line)
{
	char *arguments[ARGUMENTS_MAX + 1] = {NULL};

	for (size_t i = 0; i < ARGUMENTS_MAX && line->given[i]; i++)
		arguments[i] = strdup(line->given[i]);
	secrets_hide(arguments);
	for (size_t i = 0; i < ARGUMENTS_MAX && line->given[i]; i++) {
		cr_expect_str_eq(arguments[i], line->hidden[i], "%s -> %s, wanted %s",
				 line->given[i], arguments[i], line->hidden[i]);
		free(arguments[i]);
	}
}

Test(secrets, hides)
{
	static const struct line lines[] = {
		{{"--token=abc def", "x"}, {"--token=***", "x"}},
		{{"--password", "hunter2", "x"}, {"--password", "***", "x"}},
		{{"-password", "x"}, {"-password", "*"}},
		{{"--pass=ab"}, {"--pass=**"}},
		{{"API_KEY=abcd"}, {"API_KEY=***"}},
		{{"--apiKey", "abcd"}, {"--apiKey", "***"}},
		{{"--wandb.HFToken=abcd"}, {"--wandb.HFToken=***"}},
		{{"WANDB_API_KEY='ab cd'"}, {"WANDB_API_KEY='***'"}},
		{{"-H", "Authorization: Bearer abc.def"}, {"-H", "Authorization: ***"}},
		{{"-H", "X-Api-Key:  abcd"}, {"-H", "X-Api-Key:  ***"}},
		{{"-c", "export HF_TOKEN=abcd; python t.py"},
		 {"-c", "export HF_TOKEN=***; python t.py"}},
		{{"{\"user\": \"u\", \"password\": \"p w\", \"n\": 1}"},
		 {"{\"user\": \"u\", \"password\": \"***\", \"n\": 1}"}},
		{{"https://user:pw123@host/x?a=b&token=abcd&c=d"},
		 {"https://user:***@host/x?a=b&token=***&c=d"}},
		{{"--model=hf_abcdefghijklmnopqrstuvwx"}, {"--model=***"}},
		{{"sk-abcdefghijklmnop1234"}, {"***"}},
		{{"x AKIAABCDEFGHIJKLMNOP y"}, {"x *** y"}},
		{{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3.abcdefghijkl"}, {"***"}},
		{{"use bearer abcdefgh12, please"}, {"use bearer ***, please"}},
		{{"--secret", "-not-a-value", "v"}, {"--secret", "-not-a-value", "v"}},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		check(&lines[i]);
}

Test(secrets, leaves_what_only_sounds_like_one)
{
	static const struct line lines[] = {
		{{"python3", "train.py"}, {"python3", "train.py"}},
		{{"--tokenizer", "gpt2"}, {"--tokenizer", "gpt2"}},
		{{"--max-tokens=512"}, {"--max-tokens=512"}},
		{{"--eos-token", "</s>"}, {"--eos-token", "</s>"}},
		{{"--pad_token_id=0"}, {"--pad_token_id=0"}},
		{{"--sort-key", "name"}, {"--sort-key", "name"}},
		{{"--key=loss"}, {"--key=loss"}},
		{{"--passes", "3"}, {"--passes", "3"}},
		{{"first_pass=1"}, {"first_pass=1"}},
		{{"-F", "lib*:at::secret::call"}, {"-F", "lib*:at::secret::call"}},
		{{"token://host/x"}, {"token://host/x"}},
		{{"--author=me"}, {"--author=me"}},
		{{"sk-learn"}, {"sk-learn"}},
		{{"http://host:8080/x@y"}, {"http://host:8080/x@y"}},
		{{"--password"}, {"--password"}},
		{{"--password", ""}, {"--password", ""}},
		{{"--token="}, {"--token="}},
		{{"", "-", "--"}, {"", "-", "--"}},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		check(&lines[i]);
}

/* Whatever a process writes over its arguments: no crash, and nothing grows. */
Test(secrets, garbage)
{
	static const char alphabet[] = "aTk=:\"' -_./@&token hf_sk-eyJ\xff\x01";

	srand(1);
	for (int i = 0; i < 20000; i++) {
		size_t length = (size_t)rand() % 60;
		char *text = malloc(length + 1);
		char *arguments[] = {text, NULL};

		for (size_t j = 0; j < length; j++)
			text[j] = alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
		text[length] = '\0';
		secrets_hide(arguments);
		cr_assert_leq(strlen(text), length);
		free(text);
	}
}
