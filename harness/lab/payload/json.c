#include "json.h"

#include <math.h>

static void put_string(struct json *json, const char *text) {
    putc('"', json->file);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\n') fputs("\\n", json->file);
        else if (c == '\t') fputs("\\t", json->file);
        else if (c < 0x20 || c >= 0x7f) break; /* nccl-tests cuts a string at the first character it cannot write */
        else if (c == '"' || c == '\\' || c == '/') fprintf(json->file, "\\%c", c);
        else putc(c, json->file);
    }
    putc('"', json->file);
}

static void begin_value(struct json *json, const char *key) {
    if (json->depth > 0) {
        if (json->has_items[json->depth - 1]) putc(',', json->file);
        json->has_items[json->depth - 1] = true;
    }
    if (key == NULL) return;
    put_string(json, key);
    putc(':', json->file);
}

static void open_container(struct json *json, const char *key, char opener, char closer) {
    begin_value(json, key);
    putc(opener, json->file);
    json->closers[json->depth] = closer;
    json->has_items[json->depth] = false;
    json->depth++;
}

void json_open_object(struct json *json, const char *key) { open_container(json, key, '{', '}'); }
void json_open_array(struct json *json, const char *key) { open_container(json, key, '[', ']'); }
void json_close(struct json *json) { putc(json->closers[--json->depth], json->file); }

void json_string(struct json *json, const char *key, const char *value) {
    begin_value(json, key);
    put_string(json, value);
}

void json_bool(struct json *json, const char *key, bool value) { json_string(json, key, value ? "true" : "false"); }

void json_integer(struct json *json, const char *key, long long value) {
    begin_value(json, key);
    fprintf(json->file, "%lld", value);
}

void json_number(struct json *json, const char *key, double value) {
    begin_value(json, key);
    if (isnan(value)) fputs("\"nan\"", json->file);
    else fprintf(json->file, "%f", value);
}

void json_null(struct json *json, const char *key) {
    begin_value(json, key);
    fputs("null", json->file);
}
