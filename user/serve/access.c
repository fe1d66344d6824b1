// SPDX-License-Identifier: BSD-2-Clause
#include "serve/http.h"

#include "base/file.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int parse_port(const char *text, in_port_t *port)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > UINT16_MAX)
		return -EINVAL;
	*port = htons((uint16_t)value);
	return 0;
}

static bool is_loopback4(struct in_addr address)
{
	return ntohl(address.s_addr) >> 24 == 127;
}

int listen_parse(const char *text, struct listen_address *address)
{
	struct sockaddr_in *v4 = &address->socket.v4;
	struct sockaddr_in6 *v6 = &address->socket.v6;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	size_t length;
	in_port_t port;

	*address = (struct listen_address){0};
	if (!colon || (size_t)(colon - text) >= sizeof(host) || parse_port(colon + 1, &port))
		return -EINVAL;
	length = (size_t)(colon - text);
	snprintf(host, sizeof(host), "%.*s", (int)length, text);
	if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		if (inet_pton(AF_INET6, host + 1, &v6->sin6_addr) != 1)
			return -EINVAL;
		v6->sin6_family = AF_INET6;
		address->size = sizeof(*v6);
		address->loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	} else {
		if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1",
			      &v4->sin_addr) != 1)
			return -EINVAL;
		v4->sin_family = AF_INET;
		address->size = sizeof(*v4);
		address->loopback = is_loopback4(v4->sin_addr);
	}
	/* the port is at the same place in both */
	v4->sin_port = port;
	return 0;
}

const char *listen_show(const struct listen_address *address, char shown[LISTEN_SHOWN])
{
	bool is_v6 = address->socket.any.sa_family == AF_INET6;
	char host[INET6_ADDRSTRLEN] = "?";

	inet_ntop(address->socket.any.sa_family,
		  is_v6 ? (const void *)&address->socket.v6.sin6_addr
			: (const void *)&address->socket.v4.sin_addr,
		  host, sizeof(host));
	snprintf(shown, LISTEN_SHOWN, is_v6 ? "[%s]:%u" : "%s:%u", host,
		 ntohs(address->socket.v4.sin_port));
	return shown;
}

static bool is_port(const char *text)
{
	in_port_t port;

	return !*text || (*text == ':' && !parse_port(text + 1, &port));
}

bool host_is_loopback(const char *host)
{
	size_t length = strcspn(host, ":");
	char name[INET_ADDRSTRLEN];
	struct in_addr address;

	if ((!strncasecmp(host, "localhost", 9) && is_port(host + 9)) ||
	    (begins_with(host, "[::1]") && is_port(host + 5)))
		return true;
	if (length >= sizeof(name) || !is_port(host + length))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)length, host);
	return inet_pton(AF_INET, name, &address) == 1 && is_loopback4(address);
}

char *certificate_load(const char *path, const char **why)
{
	char *text = file_read_text(path);

	if (!text)
		*why = file_error(errno);
	return text;
}

char *secret_load(const char *path, const char **why)
{
	struct stat st;

	if (stat(path, &st)) {
		*why = strerror(errno);
		return NULL;
	}
	if (st.st_mode & S_IROTH) {
		*why = "everybody can read it: chmod o-r";
		return NULL;
	}
	return certificate_load(path, why);
}

char *token_load(const char *path, const char **why)
{
	char *token = secret_load(path, why);
	size_t length;

	if (!token)
		return NULL;
	length = strcspn(token, "\r\n");
	token[length] = '\0';
	*why = NULL;
	if (length < TOKEN_MIN || length > TOKEN_MAX)
		*why = "its first line is no token of 16 to 512 characters: try openssl rand -hex "
		       "32";
	for (size_t i = 0; i < length; i++)
		if (token[i] <= ' ' || token[i] > '~')
			*why = "the token has characters that a header cannot have";
	if (!*why)
		return token;
	free(token);
	return NULL;
}

bool is_token(const char *given, const char *token)
{
	size_t length = strlen(given), token_length = strlen(token);
	volatile unsigned char different = length != token_length;

	for (size_t i = 0; i < token_length; i++)
		different |= (unsigned char)(token[i] ^ (i < length ? given[i] : 0));
	return !different;
}
