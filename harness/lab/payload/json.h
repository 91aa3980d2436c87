/* Writes one JSON document to a file, piece by piece, on one line. */
#ifndef PAYLOAD_JSON_H
#define PAYLOAD_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { JSON_DEPTH = 8 };

struct json {
    FILE *file;
    int depth;
    char closers[JSON_DEPTH];
    bool has_items[JSON_DEPTH];
};

/* key is NULL inside an array and for the document itself. */
void json_open_object(struct json *json, const char *key);
void json_open_array(struct json *json, const char *key);
void json_close(struct json *json);
void json_string(struct json *json, const char *key, const char *value);
void json_bool(struct json *json, const char *key, bool value); /* "true" or "false", in quotes, as nccl-tests has it */
void json_integer(struct json *json, const char *key, long long value);
void json_number(struct json *json, const char *key, double value); /* six decimals; NaN becomes "nan" */
void json_null(struct json *json, const char *key);

#endif
