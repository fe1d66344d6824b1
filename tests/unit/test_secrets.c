// SPDX-License-Identifier: BSD-2-Clause
#include "base/secrets.h"
#include "rounds.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 16

/* Two blanks divide arguments: "curl  -u  me:abcd" are three. */
struct line {
	const char *given, *hidden;
};

static void check(const struct line *line)
{
	char *arguments[ARGUMENTS_MAX + 1] = {NULL}, *copy = strdup(line->given), *rest = copy;
	char joined[512] = "";

	for (size_t i = 0; rest && i < ARGUMENTS_MAX; i++) {
		arguments[i] = rest;
		rest = strstr(rest, "  ");
		if (rest) {
			*rest = '\0';
			rest += 2;
		}
	}
	secrets_hide(arguments);
	for (size_t i = 0; arguments[i]; i++) {
		strcat(joined, i ? "  " : "");
		strcat(joined, arguments[i]);
	}
	cr_expect_str_eq(joined, line->hidden, "%s\n -> %s\n != %s", line->given, joined,
			 line->hidden);
	free(copy);
}

static void check_all(const struct line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check(&lines[i]);
}

#define CHECK(lines) check_all(lines, sizeof(lines) / sizeof((lines)[0]))

/* clang-format off */

Test(secrets, options)
{
	static const struct line lines[] = {
		{"--token=abc def  x", "--token=***  x"},
		{"--password  hunter2  x", "--password  ***  x"},
		{"-password  x", "-password  *"},
		{"--password  -x", "--password  **"},
		{"--secret  -not-an-option  v", "--secret  ***  v"},
		{"--pass=ab", "--pass=**"},
		{"--apiKey  abcd", "--apiKey  ***"},
		{"--clientsecret=abcd", "--clientsecret=***"},
		{"--client-secret  abcd", "--client-secret  ***"},
		{"--accesstoken=abcd", "--accesstoken=***"},
		{"--access_token  abcd", "--access_token  ***"},
		{"--refreshToken=abcd", "--refreshToken=***"},
		{"--hf-token  abcd", "--hf-token  ***"},
		{"--hftoken=abcd", "--hftoken=***"},
		{"--wandb.HFToken=abcd", "--wandb.HFToken=***"},
		{"--wandb-key=0123abcd", "--wandb-key=***"},
		{"--db-pass  abcd", "--db-pass  ***"},
		{"--dbpass=abcd", "--dbpass=***"},
		{"--admin-password  abcd", "--admin-password  ***"},
		{"--passphrase  a,b c", "--passphrase  ***"},
		{"--private-key=abcd", "--private-key=***"},
		{"--account-key  abcd==", "--account-key  ***"},
		{"--sas-token  sv=1", "--sas-token  ***"},
		{"--connection-string  a=b;c=d", "--connection-string  ***"},
		{"--credentials=abcd", "--credentials=***"},
		{"--creds  me:abcd", "--creds  ***"},
		{"--use_auth_token  abcdefgh", "--use_auth_token  ***"},
		{"--cookie=session=1", "--cookie=***"},
		{"--webhook-url=https://x/y", "--webhook-url=***"},
		{"--user=me:abcd", "--user=me:***"},
		{"-u  me:abcd", "-u  me:***"},
		{"--proxy-user  me:p:w", "--proxy-user  me:***"},
		{"--basic-auth  me:abcd", "--basic-auth  me:***"},
		{"--NotebookApp.token=abcd", "--NotebookApp.token=***"},
		{"+trainer.api_key=abcd", "+trainer.api_key=***"},
		{"-Djavax.net.ssl.keyStorePassword=abcd", "-Djavax.net.ssl.keyStorePassword=***"},
		{"--conf  spark.hadoop.fs.s3a.secret.key=abcd",
		 "--conf  spark.hadoop.fs.s3a.secret.key=***"},
		{"--env=HF_TOKEN=abcd", "--env=HF_TOKEN=***"},
		{"--set  auth.password=abcd", "--set  auth.password=***"},
		{"--password  --token  abcd", "--password  --token  ***"},
		{"password:=abcd", "password:=***"},
	};

	CHECK(lines);
}

Test(secrets, variables)
{
	static const struct line lines[] = {
		{"API_KEY=abcd", "API_KEY=***"},
		{"WANDB_API_KEY='ab cd'", "WANDB_API_KEY='***'"},
		{"env  PGPASSWORD=abcd  psql", "env  PGPASSWORD=***  psql"},
		{"REDISCLI_AUTH=abcd", "REDISCLI_AUTH=***"},
		{"SSHPASS=abcd", "SSHPASS=***"},
		{"DB_PASS=abcd", "DB_PASS=***"},
		{"MYSQL_PWD=abcd", "MYSQL_PWD=***"},
		{"SECRET_KEY_BASE=abcd", "SECRET_KEY_BASE=***"},
		{"AWS_SECRET_ACCESS_KEY=ab/cd", "AWS_SECRET_ACCESS_KEY=***"},
		{"AWS_SESSION_TOKEN=abcd", "AWS_SESSION_TOKEN=***"},
		{"OPENAI_API_KEY=abcd", "OPENAI_API_KEY=***"},
		{"GITHUB_PAT=abcd", "GITHUB_PAT=***"},
		{"MY_JWT=abcd", "MY_JWT=***"},
		{"SENTRY_DSN=https://abcd@host/1", "SENTRY_DSN=***"},
		{"APP_PASSWD=abcd", "APP_PASSWD=***"},
		{"SMTP_PASSWORD=a b", "SMTP_PASSWORD=***"},
		{"//registry.example/:_authToken=abcd", "//registry.example/:_authToken=***"},
		{"AccountName=a;AccountKey=abcd==;Suffix=b", "AccountName=a;AccountKey=***;Suffix=b"},
	};

	CHECK(lines);
}

Test(secrets, headers_and_texts)
{
	static const struct line lines[] = {
		{"-H  Authorization: Bearer abc.def", "-H  Authorization: ***"},
		{"-H  authorization: Basic dXNlcjpwdw==", "-H  authorization: ***"},
		{"--header=Private-Token: abcd", "--header=Private-Token: ***"},
		{"-H  X-Api-Key: abcd", "-H  X-Api-Key: ***"},
		{"-H  X-Vault-Token: abcd", "-H  X-Vault-Token: ***"},
		{"-H  Cookie: a=b; c=d", "-H  Cookie: ***"},
		{"-c  http.extraHeader=Authorization: Basic abcd", "-c  http.extraHeader=Authorization: ***"},
		{"use bearer abcdefgh12, please", "use bearer ***, please"},
		{"{\"user\": \"u\", \"password\": \"p w\", \"n\": 1}",
		 "{\"user\": \"u\", \"password\": \"***\", \"n\": 1}"},
		{"{\"auth\":\"dXNl\",\"n\":1}", "{\"auth\":\"***\",\"n\":1}"},
		{"{\\\"token\\\": \\\"abcd\\\", \\\"n\\\": 1}", "{\\\"token\\\": \\\"***\\\", \\\"n\\\": 1}"},
		{"{password: abcd, n: 1}", "{password: ***, n: 1}"},
		{"{\"passwords\": [\"a\", \"b\"], \"n\": 1}", "{\"passwords\": ***], \"n\": 1}"},
		{"client_secret: abcd", "client_secret: ***"},
		{"host=h password=abcd dbname=d", "host=h password=*** dbname=d"},
		{"-o  username=u,password=a,b,vers=3", "-o  username=u,password=***,vers=3"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIE", "-----BEGIN RSA ***"},
	};

	CHECK(lines);
}

Test(secrets, urls)
{
	static const struct line lines[] = {
		{"https://user:pw123@host/x?a=b&token=abcd&c=d",
		 "https://user:***@host/x?a=b&token=***&c=d"},
		{"postgresql://me:p@ss@db:5432/x", "postgresql://me:***@db:5432/x"},
		{"me:abcd@db:5432/x", "me:***@db:5432/x"},
		{"--hosts=me:abcd@h", "--hosts=me:***@h"},
		{"redis://:p/w@host:6379/0", "redis://:***@host:6379/0"},
		{"https://abcdefghijklmnopqrstuvwxyz@github.com/x", "https://***@github.com/x"},
		{"https://abcdefghijklmnopqrstuvwxyz:x@github.com/x", "https://***:*@github.com/x"},
		{"https://a.blob.core.windows.net/c?sv=1&sig=ab%2Fcd", "https://a.blob.core.windows.net/c?sv=1&sig=***"},
		{"https://b.s3.amazonaws.com/k?X-Amz-Signature=0123456789abcdef0123&X-Amz-Date=1",
		 "https://b.s3.amazonaws.com/k?X-Amz-Signature=***&X-Amz-Date=1"},
		{"https://h/p?key=abcdefgh", "https://h/p?key=***"},
		{"https://h/p?access_token=abcd#x", "https://h/p?access_token=***"},
		{"https://f.azurewebsites.net/api/f?code=abcdefgh", "https://f.azurewebsites.net/api/f?code=***"},
		{"https://hooks.slack.com/services/T0/B0/abcd", "https://hooks.slack.com/services/***"},
		{"https://discord.com/api/webhooks/1/abcd", "https://discord.com/api/webhooks/***"},
		{"https://api.telegram.org/bot123:abcd/send", "https://api.telegram.org/bot***"},
	};

	CHECK(lines);
}

Test(secrets, programs)
{
	static const struct line lines[] = {
		{"curl  -su  me:abcd  https://h", "curl  -su  me:***  https://h"},
		{"/usr/bin/curl  -ume:abcd  https://h", "/usr/bin/curl  -ume:***  https://h"},
		{"curl  -U  me:abcd  https://h", "curl  -U  me:***  https://h"},
		{"curl  -b  session=1  https://h", "curl  -b  ***  https://h"},
		{"curl  -d  user=u&password=p&n=1", "curl  -d  user=u&password=*&n=1"},
		{"wget  --http-password=abcd", "wget  --http-password=***"},
		{"wget  --password  abcd", "wget  --password  ***"},
		{"git  clone  https://me:abcd@github.com/x", "git  clone  https://me:***@github.com/x"},
		{"mysql  -uroot  -pabcd  db", "mysql  -uroot  -p***  db"},
		{"sudo  mysqldump  -pabcd", "sudo  mysqldump  -p***"},
		{"redis-cli  -h  h  -a  abcd", "redis-cli  -h  h  -a  ***"},
		{"redis-cli  config  set  requirepass  abcd", "redis-cli  config  set  requirepass  ***"},
		{"sshpass  -p  abcd  ssh  h", "sshpass  -p  ***  ssh  h"},
		{"sshpass  -pabcd  ssh  h", "sshpass  -p***  ssh  h"},
		{"docker  login  -u  me  -p  abcd", "docker  login  -u  me  -p  ***"},
		{"az  login  --service-principal  -p  abcd", "az  login  --service-principal  -p  ***"},
		{"mongosh  -p  abcd", "mongosh  -p  ***"},
		{"ldapsearch  -w  abcd", "ldapsearch  -w  ***"},
		{"unzip  -P  abcd  f.zip", "unzip  -P  ***  f.zip"},
		{"7z  x  -pabcd  f.7z", "7z  x  -p***  f.7z"},
		{"openssl  enc  -pass  pass:abcd", "openssl  enc  -pass  ***"},
		{"aws  configure  set  aws_secret_access_key  abcd",
		 "aws  configure  set  aws_secret_access_key  ***"},
		{"wandb  login  0123456789abcdef", "wandb  login  ***"},
		{"wandb  login  --relogin  0123456789abcdef0123456789abcdef01234567",
		 "wandb  login  --relogin  ***"},
		{"vault  login  abcd", "vault  login  ***"},
		{"kubectl  --token=abcd  get  pods", "kubectl  --token=***  get  pods"},
		{"kubectl  create  secret  generic  x  --from-literal=k=abcd",
		 "kubectl  create  secret  generic  x  --from-literal=k=***"},
		{"nmcli  dev  wifi  connect  x  password  abcd", "nmcli  dev  wifi  connect  x  password  ***"},
		{"twine  upload  -u  me  -p  abcd", "twine  upload  -u  me  -p  ***"},
		{"smbclient  -U  me%abcd  //h/s", "smbclient  -U  me%***  //h/s"},
		{"http  -a  me:abcd  h", "http  -a  ***  h"},
	};

	CHECK(lines);
}

Test(secrets, scripts)
{
	static const struct line lines[] = {
		{"-c  export HF_TOKEN=abcd; python t.py", "-c  export HF_TOKEN=***; python t.py"},
		{"sh  -c  HF_TOKEN=abcd python t.py", "sh  -c  HF_TOKEN=*** python t.py"},
		{"bash  -lc  python t.py --token abcd --lr 1", "bash  -lc  python t.py --token *** --lr 1"},
		{"sh  -c  mysql -pabcd db", "sh  -c  mysql -p*** db"},
		{"sh  -c  curl -u me:abcd https://h", "sh  -c  curl -u me:*** https://h"},
		{"sh  -c  curl -H 'Authorization: Bearer abcdefgh' https://h",
		 "sh  -c  curl -H 'Authorization: ***' https://h"},
		{"sh  -c  python t.py --password 'a b' --lr 1", "sh  -c  python t.py --password '***' --lr 1"},
		{"sh  -c  true && sshpass -p abcd ssh h", "sh  -c  true && sshpass -p *** ssh h"},
		{"sh  -c  echo $HF_TOKEN; t --token $HF_TOKEN", "sh  -c  echo $HF_TOKEN; t --token $HF_TOKEN"},
	};

	CHECK(lines);
}

Test(secrets, values_that_look_like_keys)
{
	static const struct line lines[] = {
		{"--model=hf_abcdefghijklmnopqrstuvwx", "--model=***"},
		{"sk-abcdefghijklmnop1234", "***"},
		{"sk-ant-api03-abcdefghijklmnop", "***"},
		{"x AKIAABCDEFGHIJKLMNOP y", "x *** y"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3.abcdefghijkl", "***"},
		{"glpat-abcdefghijklmnopqrst", "***"},
		{"xoxb-1234567890-abcdefgh", "***"},
		{"gsk_abcdefghijklmnopqrstuv", "***"},
		{"hvs.CAESIJabcdefghijklmnop", "***"},
		{"--x=Zk3vQ9tLw2XbN7mRc5Ys8HdJ", "--x=***"},
		{"Zk3vQ9tLw2XbN7mRc5Ys8HdJ0pGf", "***"},
		{"--id  wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY0", "--id  ***"},
		{"--blob=dGhpcyBpcyBhIHNlY3JldCE1Nw==", "--blob=***"},
		{"k8f2m9x4q7w1z5v3n6b0c2d8", "***"},
	};

	CHECK(lines);
}

Test(secrets, leaves_what_only_sounds_like_one)
{
	static const char *const lines[] = {
		"python3  train.py",
		"--tokenizer  gpt2",
		"--tokenizer-path=/data/tokenizer.json",
		"--max-tokens=512",
		"--max_new_tokens  2048",
		"--num-tokens  1000000",
		"--eos-token  </s>",
		"--bos_token=<s>",
		"--pad_token_id=0",
		"--image-token  32000",
		"--placeholder_token  <cat>",
		"--initializer_token  toy",
		"--token_type_ids",
		"--tokens-per-batch  4096",
		"--num-keys  8",
		"--sort-key  name",
		"--key=loss",
		"--primary-key  id",
		"--passes  3",
		"first_pass=1",
		"--num-pass  2",
		"--high-pass=100",
		"--bypass  cache",
		"-F  lib*:at::secret::call",
		"token://host/x",
		"--author=me",
		"--auth-type  basic",
		"--auth  kerberos",
		"--password-file  /run/x",
		"--token-file=/etc/t",
		"--secret-name  x",
		"--no-password  --verbose",
		"--ask-password  x",
		"--use_auth_token  True",
		"sk-learn",
		"http://host:8080/x@y",
		"--port  6006",
		"-p  8080:80",
		"docker  run  -p  8080:80  --user  1000:1000  image",
		"ssh  -p  2222  host",
		"python  -u  train.py",
		"--lr  3e-4  --weight-decay=0.1  --betas  0.9,0.999",
		"--model  meta-llama/Meta-Llama-3.1-8B-Instruct",
		"TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ-4bit-32g-actorder",
		"--name=DistilBertForSequenceClassificationV2Large",
		"--run_name=bert-large-uncased-lr3e-5-bs32-seed42-2024-01-31",
		"gpt2_medium_lr3e4_bs32_seed42_run7_AdamW",
		"--revision  5fa9b1c4e6d84c2b8f0a1234567890abcdef1234",
		"/cache/models--x/snapshots/5fa9b1c4e6d84c2b8f0a1234567890abcdef1234/config.json",
		"image@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"--rdzv-id=123e4567-e89b-12d3-a456-426614174000",
		"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
		"/root/.cache/uv/archive-v0/Zk3vQ9tLw2XbN7mRc5Ys8HdJ/bin/python",
		"checkpoints/epoch12-step3400.ckpt",
		"s3://bucket/data/train-00001-of-01024.parquet",
		"postgresql://me@db:5432/x",
		"git@github.com:org/repo.git",
		"--master_addr=10.0.0.1  --master_port=29500  --nproc_per_node=8",
		"torchrun  --rdzv-endpoint=host:29400  train.py  model.hidden=4096",
		"PWD=/home/me",
		"LD_LIBRARY_PATH=/usr/local/cuda/lib64:/opt/lib",
		"PYTHONPATH=/a:/b  OMP_NUM_THREADS=8",
		"-c  import torch; print(torch.nn.functional.scaled_dot_product_attention)",
		"--config-name=passive_aggressive  --compass=north",
		"--seed=1234567890",
		"--password",
		"--password  ",
		"--token=",
		"  -  --",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		check(&(struct line){lines[i], lines[i]});
}

/* clang-format on */

/* Whatever a process writes over its arguments: no crash, and nothing grows. */
Test(secrets, garbage)
{
	static const char *const parts[] = {
		"aTk=",	    ":\"'",  " -_./@&", "token", " hf_",   "sk-", "eyJ",
		"\xff\x01", "mysql", " -p",	"curl",	 " -u",	   "://", "\\\"",
		"[{}]",	    "-c",    "$(",	"pass",	 "login ", "--",  "PRIVATE KEY-----"};

	srand(1);
	for (int i = 0; i < rounds(50000); i++) {
		char texts[3][160], *arguments[] = {texts[0], texts[1], texts[2], NULL};
		size_t lengths[3];

		for (int k = 0; k < 3; k++) {
			texts[k][0] = '\0';
			for (int part = rand() % 9; part > 0; part--)
				strcat(texts[k],
				       parts[(size_t)rand() % (sizeof(parts) / sizeof(parts[0]))]);
			lengths[k] = strlen(texts[k]);
		}
		secrets_hide(arguments);
		for (int k = 0; k < 3; k++)
			cr_assert_leq(strlen(texts[k]), lengths[k]);
	}
}
