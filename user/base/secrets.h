/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hides likely secrets in a command line before it goes into a capture:
 *
 *     --token=…  --password x  API_KEY=…  "Authorization: Bearer …"  {"secret": "…"}
 *     https://user:…@host/?sig=…  curl -u user:…  mysql -p…  sh -c "PGPASSWORD=… psql"
 *     hf_…  sk-…  ghp_…  AKIA…  eyJ….….…  and other long values that look random
 *
 * The value becomes "***", also in doubtful cases. Values that are no secrets are kept:
 * --tokenizer gpt2, --max-tokens 512, --eos-token "</s>", --sort-key name, digests, paths.
 */
#ifndef PERFX_BASE_SECRETS_H
#define PERFX_BASE_SECRETS_H

/* Changes the NULL-terminated arguments in place; they only become shorter. */
void secrets_hide(char **arguments);

#endif
