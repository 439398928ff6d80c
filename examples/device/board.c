/* A device of a served run in C99: the C library, POSIX sockets and nothing else. Written from docs/reference/http.md.

     cc -std=c99 -O2 -o board board.c -lm
     ./board HOST PORT [--token TOKEN] [--data own.csv] [--state FILE]

   It knows one method (fedavg with plain SGD) on one kind of model (dense layers with ReLU) and declines everything else.
   own.csv has numbers alone, one sample a line, and the class in the last column; every fifth sample tests. Without it the board
   trains on the samples that the server deals out for a rehearsal. The state file keeps who the board is.

   What a product needs beyond this: TLS 1.3 (any library that wraps a socket), a report that survives a loss of power until its
   receipt is there, and resumed transfers of large models. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MAX_BODY = 64 << 20, MAX_LAYERS = 32, MAX_DEPTH = 32, SECRET_BYTES = 64 };

static void fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fputs("board: ", stderr);
  vfprintf(stderr, format, values);
  fputc('\n', stderr);
  va_end(values);
  exit(1);
}

static void *room(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) fail("out of memory");
  return memory;
}

static char *text(const char *format, ...) {
  va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  int n = vsnprintf(NULL, 0, format, values);
  char *result = room((size_t)n + 1, 1);
  vsnprintf(result, (size_t)n + 1, format, again);
  va_end(values);
  va_end(again);
  return result;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_seconds(double seconds) {
  if (!(seconds > 0)) return;
  if (seconds > 3600) seconds = 3600;
  struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  nanosleep(&t, NULL);
}

/* Shuffles and pauses need no good randomness. */
static uint64_t draw_state = 88172645463325252ULL;
static uint64_t draw(void) {
  draw_state ^= draw_state << 13;
  draw_state ^= draw_state >> 7;
  return draw_state ^= draw_state << 17;
}

/* ---- JSON: a value knows its first member or item, and the next one beside it ---------------------------------------------- */

typedef struct Json {
  char kind; /* { [ s n t f 0 */
  char *key, *string; /* of a number: its text */
  size_t length; /* of the string */
  struct Json *child, *next;
} Json;

typedef struct { const char *at, *end; int depth; } Reader;

static void json_free(Json *value) {
  while (value) {
    Json *next = value->next;
    json_free(value->child);
    free(value->key);
    free(value->string);
    free(value);
    value = next;
  }
}

static void skip_space(Reader *r) {
  while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
}

static char *json_string(Reader *r, size_t *length) {
  if (r->at >= r->end || *r->at++ != '"') return NULL;
  char *out = room((size_t)(r->end - r->at) + 1, 1);
  size_t n = 0;
  while (r->at < r->end && *r->at != '"') {
    char c = *r->at++;
    if (c == '\\') {
      if (r->at >= r->end) break;
      c = *r->at++;
      if (c == 'n') c = '\n';
      else if (c == 't') c = '\t';
      else if (c == 'u') { /* names of this protocol are ASCII: another letter matches none */
        if (r->end - r->at < 4) break;
        r->at += 4;
        c = '?';
      }
    }
    out[n++] = c;
  }
  if (r->at >= r->end) {
    free(out);
    return NULL;
  }
  r->at++;
  *length = n;
  return out;
}

static Json *json_value(Reader *r) {
  skip_space(r);
  if (r->at >= r->end || r->depth > MAX_DEPTH) return NULL;
  Json *value = room(1, sizeof *value);
  char c = value->kind = *r->at;
  if (c == '"') {
    value->kind = 's';
    if ((value->string = json_string(r, &value->length))) return value;
  } else if (c == '{' || c == '[') {
    Json **last = &value->child;
    char close = c == '{' ? '}' : ']';
    r->at++, r->depth++;
    for (skip_space(r); r->at < r->end && *r->at != close; skip_space(r)) {
      char *key = NULL;
      size_t n;
      if (c == '{') {
        key = json_string(r, &n);
        skip_space(r);
        if (!key || r->at >= r->end || *r->at++ != ':') {
          free(key);
          break;
        }
      }
      if (!(*last = json_value(r))) {
        free(key);
        break;
      }
      (*last)->key = key;
      last = &(*last)->next;
      skip_space(r);
      if (r->at < r->end && *r->at == ',') r->at++;
      else if (r->at >= r->end || *r->at != close) break;
    }
    r->depth--;
    if (r->at < r->end && *r->at == close) {
      r->at++;
      return value;
    }
  } else {
    const char *from = r->at;
    while (r->at < r->end && strchr("+-.0123456789aeEfInlNrstuy", *r->at) && *r->at) r->at++;
    if (r->at > from) {
      value->kind = c == 't' || c == 'f' ? c : c == 'n' ? '0' : 'n';
      value->length = (size_t)(r->at - from);
      value->string = room(value->length + 1, 1);
      memcpy(value->string, from, value->length);
      return value;
    }
  }
  json_free(value);
  return NULL;
}

static Json *json_parse(const char *data, size_t length) {
  Reader r = {data, data + length, 0};
  return json_value(&r);
}

static Json *get(const Json *object, const char *key) {
  for (Json *one = object && object->kind == '{' ? object->child : NULL; one; one = one->next)
    if (!strcmp(one->key, key)) return one->kind == '0' ? NULL : one;
  return NULL;
}

static const char *get_text(const Json *object, const char *key) {
  Json *found = get(object, key);
  return found && found->string ? found->string : "";
}

static double get_number(const Json *object, const char *key, double otherwise) {
  Json *found = get(object, key);
  return found && found->string ? strtod(found->string, NULL) : otherwise; /* integers of 64 bits are strings */
}

/* ---- base64, CRC-32C, HMAC-SHA-256 ------------------------------------------------------------------------------------------ */

static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static uint8_t *from_base64(const char *data, size_t *length) {
  uint8_t *out = room(strlen(data) + 4, 1);
  uint32_t bits = 0, held = 0;
  *length = 0;
  for (; *data && *data != '='; data++) {
    const char *at = strchr(BASE64, *data);
    if (!at) continue;
    bits = bits << 6 | (uint32_t)(at - BASE64);
    if ((held += 6) >= 8) out[(*length)++] = (uint8_t)(bits >> (held -= 8));
  }
  return out;
}

static char *to_base64(const uint8_t *data, size_t length) {
  char *out = room(length / 3 * 4 + 8, 1);
  size_t n = 0;
  for (size_t i = 0; i < length; i += 3) {
    uint32_t bits = (uint32_t)data[i] << 16;
    if (i + 1 < length) bits |= (uint32_t)data[i + 1] << 8;
    if (i + 2 < length) bits |= data[i + 2];
    for (int k = 0; k < 4; k++) out[n++] = i + (size_t)k > length ? '=' : BASE64[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

static char *to_hex(const uint8_t *data, size_t length) {
  char *out = room(2 * length + 1, 1);
  for (size_t i = 0; i < length; i++) sprintf(out + 2 * i, "%02x", data[i]);
  return out;
}

static uint32_t crc32c(const uint8_t *data, size_t length) {
  static uint32_t table[256];
  if (!table[1])
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t left = i;
      for (int k = 0; k < 8; k++) left = left >> 1 ^ (left & 1 ? 0x82F63B78u : 0);
      table[i] = left;
    }
  uint32_t left = 0xFFFFFFFFu;
  for (size_t i = 0; i < length; i++) left = left >> 8 ^ table[(left ^ data[i]) & 255];
  return ~left;
}

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha256(const uint8_t *data, size_t length, uint8_t digest[32]) {
  /* The constants are the first 32 bits of the fractions of roots of primes: computed, so that no table can be mistyped. */
  static uint32_t k[64], start[8];
  if (!k[0])
    for (int n = 0, prime = 2; n < 64; prime++) {
      int divisor = 2;
      while (divisor * divisor <= prime && prime % divisor) divisor++;
      if (divisor * divisor <= prime) continue;
      long double cube = cbrtl((long double)prime), square = sqrtl((long double)prime);
      if (n < 8) start[n] = (uint32_t)((square - floorl(square)) * 4294967296.0L);
      k[n++] = (uint32_t)((cube - floorl(cube)) * 4294967296.0L);
    }
  uint32_t h[8];
  memcpy(h, start, sizeof h);
  size_t padded = (length + 9 + 63) / 64 * 64;
  uint8_t *bytes = room(padded, 1);
  memcpy(bytes, data, length);
  bytes[length] = 0x80;
  for (int i = 0; i < 8; i++) bytes[padded - 1 - (size_t)i] = (uint8_t)((uint64_t)length * 8 >> 8 * i);
  for (size_t at = 0; at < padded; at += 64) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) {
      const uint8_t *b = bytes + at + 4 * i;
      w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
      uint32_t s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
      uint32_t s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
      uint32_t s1 = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25), choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
      uint32_t s0 = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22), most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
      uint32_t t1 = v[7] + s1 + choice + k[i] + w[i], t2 = s0 + most;
      memmove(v + 1, v, 7 * sizeof *v);
      v[4] += t1;
      v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
  }
  free(bytes);
  for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

/* The key is at most as long as a block, as secrets are. */
static void hmac_sha256(const uint8_t *key, size_t key_length, const uint8_t *data, size_t length, uint8_t digest[32]) {
  uint8_t *inner = room(64 + length, 1), outer[96];
  memset(inner, 0x36, 64);
  memset(outer, 0x5C, 64);
  for (size_t i = 0; i < key_length && i < 64; i++) inner[i] ^= key[i], outer[i] ^= key[i];
  memcpy(inner + 64, data, length);
  sha256(inner, 64 + length, outer + 64);
  sha256(outer, sizeof outer, digest);
  free(inner);
}

/* ---- HTTP/1.1: one connection, one request after the other ------------------------------------------------------------------ */

typedef struct {
  const char *host, *port;
  char *authorization; /* a line, or nothing */
  int socket;
  double patience;
} Server;

typedef struct {
  int status;
  double retry_after;
  uint8_t *body; /* a zero follows it */
  size_t length;
} Reply;

static void hang_up(Server *server) {
  if (server->socket >= 0) close(server->socket);
  server->socket = -1;
}

static int dial(Server *server) {
  struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  if (server->socket >= 0) return 1;
  if (getaddrinfo(server->host, server->port, &wanted, &found)) return 0;
  for (struct addrinfo *one = found; one && server->socket < 0; one = one->ai_next) {
    int line = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
    struct timeval most = {.tv_sec = 60}; /* a check may be held for 20 seconds */
    setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(line, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (line >= 0 && !connect(line, one->ai_addr, one->ai_addrlen)) server->socket = line;
    else if (line >= 0) close(line);
  }
  freeaddrinfo(found);
  return server->socket >= 0;
}

static int send_all(int line, const uint8_t *data, size_t length) {
  while (length) {
    ssize_t n = send(line, data, length, MSG_NOSIGNAL);
    if (n <= 0) return 0;
    data += n, length -= (size_t)n;
  }
  return 1;
}

/* One try; 0: the line broke, or what came is no answer. */
static int exchange(Server *server, const char *method, const char *path, const char *lines, const uint8_t *body, size_t length,
                    Reply *reply) {
  if (!dial(server)) return 0;
  char *head = text("%s %s HTTP/1.1\r\nHost: %s:%s\r\nContent-Length: %zu\r\n%s%s\r\n", method, path, server->host, server->port,
                    length, server->authorization ? server->authorization : "", lines);
  int sent = send_all(server->socket, (uint8_t *)head, strlen(head)) && send_all(server->socket, body, length);
  free(head);
  if (!sent) return 0;
  char answer[16384];
  size_t got = 0;
  char *end = NULL;
  while (!end && got < sizeof answer - 1) {
    ssize_t n = recv(server->socket, answer + got, sizeof answer - 1 - got, 0);
    if (n <= 0) return 0;
    got += (size_t)n;
    answer[got] = 0;
    end = strstr(answer, "\r\n\r\n");
  }
  if (!end || sscanf(answer, "HTTP/1.%*d %d", &reply->status) != 1) return 0;
  long long announced = -1;
  reply->retry_after = 0;
  for (char *line = strstr(answer, "\r\n"); line && line < end; line = strstr(line + 2, "\r\n")) {
    if (!strncasecmp(line + 2, "content-length:", 15)) announced = strtoll(line + 17, NULL, 10);
    if (!strncasecmp(line + 2, "retry-after:", 12)) reply->retry_after = strtod(line + 14, NULL);
  }
  if (announced < 0 || announced > MAX_BODY) return 0;
  reply->length = (size_t)announced;
  reply->body = room(reply->length + 1, 1);
  size_t have = got - (size_t)(end + 4 - answer);
  if (have > reply->length) have = reply->length;
  memcpy(reply->body, end + 4, have);
  while (have < reply->length) {
    ssize_t n = recv(server->socket, reply->body + have, reply->length - have, 0);
    if (n <= 0) {
      free(reply->body);
      return 0;
    }
    have += (size_t)n;
  }
  return 1;
}

/* The answer to a call, tried again with growing pauses while the server is out of reach. A refusal is believed the third time. */
static Reply call(Server *server, const char *method, const char *path, const char *lines, const void *body, size_t length) {
  double pause = 0.1, until = now() + server->patience;
  for (int refusals = 0;;) {
    Reply reply = {0};
    double longer = 0;
    if (exchange(server, method, path, lines, body, length, &reply)) {
      if (reply.status == 200 || reply.status == 404) return reply;
      int again = reply.status == 408 || reply.status == 429 || reply.status >= 500;
      if (!again && ++refusals >= 3) {
        Json *answer = json_parse((char *)reply.body, reply.length);
        fail("%s %s: %d %s", method, path, reply.status, get_text(get(answer, "error"), "message"));
      }
      longer = reply.retry_after;
      free(reply.body);
    }
    hang_up(server);
    if (now() > until) fail("the server at %s:%s is out of reach", server->host, server->port);
    double shortened = pause * (0.5 + 0.5 * (double)(draw() >> 11) / 9007199254740992.0);
    wait_seconds(longer > shortened ? longer : shortened);
    pause = pause < 5 ? 2 * pause : 10;
  }
}

static Json *call_json(Server *server, const char *method, const char *path, const char *lines, const void *body, size_t length) {
  Reply reply = call(server, method, path, lines, body, length);
  Json *answer = reply.status == 200 ? json_parse((char *)reply.body, reply.length) : NULL;
  if (!answer) fail("%s %s: the answer cannot be used (status %d)", method, path, reply.status);
  free(reply.body);
  return answer;
}

/* ---- safetensors: eight bytes of length, a table as JSON, the numbers -------------------------------------------------------- */

typedef struct {
  Json *table;
  const uint8_t *data;
  size_t length;
} Tensors;

static int open_tensors(const uint8_t *bytes, size_t length, Tensors *out) {
  uint64_t head = 0;
  if (length < 8) return 0;
  for (int i = 0; i < 8; i++) head |= (uint64_t)bytes[i] << 8 * i;
  if (head > length - 8 || !(out->table = json_parse((const char *)bytes + 8, (size_t)head))) return 0;
  out->data = bytes + 8 + head;
  out->length = length - 8 - (size_t)head;
  return 1;
}

/* The bytes of one tensor and how many numbers it has; NULL unless it is there, of this type, and as long as its shape says. */
static const uint8_t *tensor(const Tensors *file, const char *name, const char *type, size_t size, size_t *count) {
  Json *entry = get(file->table, name), *offsets = get(entry, "data_offsets"), *shape = get(entry, "shape");
  if (!offsets || !shape || strcmp(get_text(entry, "dtype"), type) || !offsets->child || !offsets->child->next) return NULL;
  double from = strtod(offsets->child->string ? offsets->child->string : "", NULL);
  double to = strtod(offsets->child->next->string ? offsets->child->next->string : "", NULL), product = 1;
  for (Json *side = shape->child; side; side = side->next) product *= strtod(side->string ? side->string : "", NULL);
  if (!(from >= 0 && to >= from && to <= (double)file->length && product * (double)size == to - from)) return NULL;
  *count = (size_t)product;
  return file->data + (size_t)from;
}

/* ---- the model: dense layers with ReLU between them -------------------------------------------------------------------------- */

typedef struct {
  char *weight, *bias; /* names of leaves; no bias: NULL */
  size_t inputs, outputs;
  int relu;            /* after it */
  float *w, *b;        /* outputs x inputs, outputs */
  float *value, *slope; /* of one sample: what the layer gives, and the gradient that comes back */
  float *dw, *db;
} Layer;

typedef struct {
  Layer layers[MAX_LAYERS];
  int count;
  size_t inputs, classes;
} Model;

/* Reads the description in the sheet; a sentence if the board cannot train this model. */
static const char *read_model(const Json *description, Model *model) {
  Json *leaves = get(description, "leaves"), *operations = get(description, "operations");
  memset(model, 0, sizeof *model);
  model->inputs = 1;
  Json *sample = get(get(description, "sample"), "shape");
  for (Json *side = sample ? sample->child : NULL; side; side = side->next) model->inputs *= (size_t)strtod(side->string, NULL);
  size_t width = model->inputs;
  int place = 0;
  for (Json *one = operations ? operations->child : NULL; one; one = one->next, place++) {
    const char *name = get_text(one, "name");
    Json *inputs = get(one, "inputs"), *first = inputs ? inputs->child : NULL;
    if (!first || first->kind != 'n' || strtod(first->string, NULL) != place) return "its operations are no chain";
    if (!strcmp(name, "reshape") && place == 0) {
      Json *shape = get(get(one, "settings"), "shape"), *rest = shape ? shape->child : NULL;
      if (!rest || !rest->next || rest->next->next || strtod(rest->next->string, NULL) != (double)width) return "it reshapes samples";
    } else if (!strcmp(name, "linear") && first->next && first->next->string && model->count < MAX_LAYERS) {
      Layer *layer = &model->layers[model->count++];
      Json *shape = get(get(leaves, first->next->string), "shape"), *side = shape ? shape->child : NULL;
      if (!side || !side->next || strtod(side->next->string, NULL) != (double)width) return "a layer does not fit the one before";
      layer->weight = text("%s", first->next->string);
      layer->bias = first->next->next && first->next->next->string ? text("%s", first->next->next->string) : NULL;
      layer->inputs = width;
      width = layer->outputs = (size_t)strtod(side->string, NULL);
      if (!width || (double)width * (double)layer->inputs > MAX_BODY / 8.0) return "a layer is too large for this board";
      layer->w = room(width * layer->inputs, sizeof(float)), layer->dw = room(width * layer->inputs, sizeof(float));
      layer->b = room(width, sizeof(float)), layer->db = room(width, sizeof(float));
      layer->value = room(width, sizeof(float)), layer->slope = room(width, sizeof(float));
    } else if (!strcmp(name, "relu") && model->count) {
      model->layers[model->count - 1].relu = 1;
    } else {
      return "it has an operation that this board does not know";
    }
  }
  model->classes = width;
  if (!model->count || model->layers[model->count - 1].relu) return "it does not end with a dense layer";
  return NULL;
}

static int load_weights(Model *model, const Tensors *file) {
  for (int i = 0; i < model->count; i++) {
    Layer *layer = &model->layers[i];
    size_t n;
    const uint8_t *w = tensor(file, layer->weight, "F32", 4, &n);
    if (!w || n != layer->inputs * layer->outputs) return 0;
    memcpy(layer->w, w, 4 * n);
    if (!layer->bias) continue;
    const uint8_t *b = tensor(file, layer->bias, "F32", 4, &n);
    if (!b || n != layer->outputs) return 0;
    memcpy(layer->b, b, 4 * n);
  }
  return 1;
}

/* The loss of one sample, its scores in the last layer; with `learn` its gradient is added to dw and db. */
static double run_sample(Model *model, const float *x, size_t label, int learn) {
  const float *in = x;
  for (int i = 0; i < model->count; in = model->layers[i++].value) {
    Layer *layer = &model->layers[i];
    for (size_t o = 0; o < layer->outputs; o++) {
      float sum = layer->b[o];
      for (size_t k = 0; k < layer->inputs; k++) sum += layer->w[o * layer->inputs + k] * in[k];
      layer->value[o] = layer->relu && sum < 0 ? 0 : sum;
    }
  }
  Layer *last = &model->layers[model->count - 1];
  double most = last->value[0], total = 0;
  for (size_t o = 1; o < last->outputs; o++) most = last->value[o] > most ? last->value[o] : most;
  for (size_t o = 0; o < last->outputs; o++) total += exp(last->value[o] - most);
  double loss = log(total) - (last->value[label] - most);
  if (!learn) return loss;
  for (size_t o = 0; o < last->outputs; o++)
    last->slope[o] = (float)(exp(last->value[o] - most) / total) - (o == label ? 1.0f : 0.0f);
  for (int i = model->count - 1; i >= 0; i--) {
    Layer *layer = &model->layers[i], *before = i ? layer - 1 : NULL;
    const float *given = before ? before->value : x;
    if (before) memset(before->slope, 0, before->outputs * sizeof(float));
    for (size_t o = 0; o < layer->outputs; o++) {
      float slope = layer->slope[o];
      layer->db[o] += slope;
      for (size_t k = 0; k < layer->inputs; k++) {
        layer->dw[o * layer->inputs + k] += slope * given[k];
        if (before && (!before->relu || given[k] > 0)) before->slope[k] += slope * layer->w[o * layer->inputs + k];
      }
    }
  }
  return loss;
}

/* ---- samples ------------------------------------------------------------------------------------------------------------------ */

typedef struct {
  float *x;
  int64_t *y;
  size_t count;
} Samples;

static void add_sample(Samples *to, const float *x, size_t width, int64_t label) {
  to->x = realloc(to->x, (to->count + 1) * width * sizeof(float));
  to->y = realloc(to->y, (to->count + 1) * sizeof(int64_t));
  if (!to->x || !to->y) fail("out of memory");
  memcpy(to->x + to->count * width, x, width * sizeof(float));
  to->y[to->count++] = label;
}

/* Numbers between commas, the class in the last column; `width` is found in the first line. */
static void read_csv(const char *path, size_t *width, Samples *train, Samples *test) {
  FILE *file = fopen(path, "r");
  if (!file) fail("cannot read %s: %s", path, strerror(errno));
  char *line = NULL;
  size_t size = 0;
  for (size_t row = 1; getline(&line, &size, file) > 0; row++) {
    float values[4096];
    size_t n = 0;
    for (char *at = line, *end; n < 4096; at = end + (*end == ',')) {
      values[n] = strtof(at, &end);
      if (end == at) break;
      n++;
    }
    if (n < 2 || (row > 1 && n != *width + 1)) fail("%s, line %zu: %zu numbers; every line needs the same, the class last", path, row, n);
    *width = n - 1;
    add_sample(row % 5 ? train : test, values, n - 1, (int64_t)values[n - 1]);
  }
  free(line);
  fclose(file);
  if (!train->count) fail("%s has no samples", path);
}

static void read_shard(Server *server, size_t width, Samples *train, Samples *test) {
  Reply reply = call(server, "GET", "/v1/shard", "", "", 0);
  Tensors file;
  if (reply.status != 200 || !open_tensors(reply.body, reply.length, &file)) fail("this run deals out no samples; give --data");
  for (int part = 0; part < 2; part++) {
    Samples *to = part ? test : train;
    size_t values, labels;
    const uint8_t *x = tensor(&file, part ? "test_x" : "train_x", "F32", 4, &values);
    const uint8_t *y = tensor(&file, part ? "test_y" : "train_y", "I64", 8, &labels);
    if (!x || !y || values != labels * width) fail("the samples of the server do not fit its model");
    to->x = room(values, 4), to->y = room(labels, 8), to->count = labels;
    memcpy(to->x, x, 4 * values);
    memcpy(to->y, y, 8 * labels);
  }
  json_free(file.table);
  free(reply.body);
}

static void check_labels(const Samples *samples, const Model *model) {
  for (size_t i = 0; i < samples->count; i++)
    if (samples->y[i] < 0 || (size_t)samples->y[i] >= model->classes)
      fail("a sample has the class %lld, and the model knows 0 to %zu", (long long)samples->y[i], model->classes - 1);
}

/* ---- the work of a task ------------------------------------------------------------------------------------------------------- */

typedef struct { double lr; size_t epochs, batch, steps; } Training;

/* Plain SGD; the mean loss of what it saw. */
static double train_model(Model *model, const Samples *samples, size_t count, Training how) {
  size_t *order = room(samples->count, sizeof *order), steps = 0, seen = 0;
  double loss = 0;
  for (size_t i = 0; i < samples->count; i++) order[i] = i;
  for (size_t epoch = 0; how.steps ? steps < how.steps : epoch < how.epochs; epoch++) {
    for (size_t i = samples->count - 1; i > 0; i--) {
      size_t other = (size_t)(draw() % (i + 1)), held = order[i];
      order[i] = order[other], order[other] = held;
    }
    for (size_t at = 0; at < count && (!how.steps || steps < how.steps); at += how.batch, steps++) {
      size_t end = at + how.batch < count ? at + how.batch : count;
      for (int i = 0; i < model->count; i++) {
        Layer *layer = &model->layers[i];
        memset(layer->dw, 0, layer->inputs * layer->outputs * sizeof(float));
        memset(layer->db, 0, layer->outputs * sizeof(float));
      }
      for (size_t k = at; k < end; k++, seen++)
        loss += run_sample(model, samples->x + order[k] * model->inputs, (size_t)samples->y[order[k]], 1);
      float rate = (float)(how.lr / (double)(end - at));
      for (int i = 0; i < model->count; i++) {
        Layer *layer = &model->layers[i];
        for (size_t k = 0; k < layer->inputs * layer->outputs; k++) layer->w[k] -= rate * layer->dw[k];
        if (layer->bias)
          for (size_t k = 0; k < layer->outputs; k++) layer->b[k] -= rate * layer->db[k];
      }
    }
  }
  free(order);
  return seen ? loss / (double)seen : 0;
}

static double test_model(Model *model, const Samples *samples, size_t *correct) {
  double loss = 0;
  *correct = 0;
  for (size_t i = 0; i < samples->count; i++) {
    loss += run_sample(model, samples->x + i * model->inputs, (size_t)samples->y[i], 0);
    float *scores = model->layers[model->count - 1].value;
    size_t best = 0;
    for (size_t o = 1; o < model->classes; o++) best = scores[o] > scores[best] ? o : best;
    *correct += best == (size_t)samples->y[i];
  }
  return samples->count ? loss / (double)samples->count : 0;
}

/* What training changed, as a file of the same leaves as the model that came: what the board did not train has not changed. */
static uint8_t *make_update(const Model *model, const uint8_t *received, size_t length, const Tensors *file) {
  uint8_t *update = room(length, 1);
  size_t head = (size_t)(file->data - received), n;
  memcpy(update, received, head);
  for (int i = 0; i < model->count; i++)
    for (int part = 0; part < 2; part++) {
      const Layer *layer = &model->layers[i];
      const char *name = part ? layer->bias : layer->weight;
      const float *after = part ? layer->b : layer->w;
      if (!name) continue;
      const uint8_t *before = tensor(file, name, "F32", 4, &n);
      for (size_t k = 0; k < n; k++) {
        float value;
        memcpy(&value, before + 4 * k, 4);
        value = after[k] - value;
        memcpy(update + (before - received) + 4 * k, &value, 4);
      }
    }
  return update;
}

/* ---- the life of a device ------------------------------------------------------------------------------------------------------ */

typedef struct {
  Server server;
  Json *sheet;
  Model model;
  Samples train, test;
  const char *refusal; /* why this board trains nothing of this run; NULL: it does */
} Board;

static void enrol(Board *board, const char *token, const char *state, const char *data) {
  char line[512] = "";
  FILE *file = fopen(state, "r");
  if (file && !fgets(line, sizeof line, file)) line[0] = 0;
  if (file) fclose(file);
  unsigned client = 0;
  char secret[256] = "", attempt[64] = "";
  if (sscanf(line, "%63s %u %255s", attempt, &client, secret) < 1) {
    uint8_t bytes[16];
    FILE *random = fopen("/dev/urandom", "r");
    if (!random || fread(bytes, 1, sizeof bytes, random) != sizeof bytes) fail("no random bytes");
    fclose(random);
    char *drawn = to_base64(bytes, sizeof bytes);
    snprintf(attempt, sizeof attempt, "%s", drawn);
    free(drawn);
  }
  umask(077);
  char *known = secret[0] ? text(", \"client\": %u, \"secret\": \"%s\"", client, secret) : text("%s", "");
  char *own = data ? text(", \"samples\": \"%zu\", \"test_samples\": \"%zu\", \"data\": \"board\"", board->train.count, board->test.count)
                   : text("%s", "");
  if (!secret[0]) { /* on the disk before it is used: an answer that is lost takes no second place */
    if (!(file = fopen(state, "w")) || fprintf(file, "%s\n", attempt) < 0 || fclose(file)) fail("cannot write %s", state);
  }
  char *body = text("{\"protocol\": 4, \"token\": \"%s\", \"attempt\": \"%s\"%s%s}", token, attempt, known, own);
  Json *reply = call_json(&board->server, "POST", "/v1/enrol", "", body, strlen(body));
  size_t secret_length, sheet_length, signature_length;
  uint8_t *key = from_base64(get_text(reply, "secret"), &secret_length), digest[32];
  uint8_t *sheet = from_base64(get_text(reply, "sheet"), &sheet_length);
  uint8_t *signature = from_base64(get_text(reply, "signature"), &signature_length);
  uint8_t *message = room(17 + sheet_length, 1);
  memcpy(message, "fedfleet sheet 1", 17);
  memcpy(message + 17, sheet, sheet_length);
  if (!secret_length || secret_length > SECRET_BYTES) fail("the server sent no secret");
  hmac_sha256(key, secret_length, message, 17 + sheet_length, digest);
  if (signature_length != 32 || memcmp(signature, digest, 32)) fail("the signature of the sheet is wrong");
  client = (unsigned)get_number(reply, "client", 0);
  if (!(file = fopen(state, "w")) || fprintf(file, "%s %u %s\n", attempt, client, get_text(reply, "secret")) < 0 || fclose(file))
    fail("cannot write %s", state);
  char *hex = to_hex(key, secret_length);
  free(board->server.authorization);
  board->server.authorization = text("Authorization: Bearer %u:%s\r\n", client, hex);
  json_free(board->sheet);
  if (!(board->sheet = json_parse((char *)sheet, sheet_length))) fail("the sheet is not JSON");
  printf("enrolled as client %u of %s\n", client, get_text(reply, "run"));
  free(hex), free(key), free(sheet), free(signature), free(message), free(body), free(known), free(own);
  json_free(reply);
}

/* Whether this board can train the run of its sheet. */
static const char *read_sheet(Board *board) {
  Json *method = get(board->sheet, "algorithm"), *described = get(board->sheet, "described"), *written = get(described, "model");
  if (!written || !written->string) return "the server does not describe its model";
  if (strcmp(get_text(method, "use"), "fedavg") || strcmp(get_text(method, "optimiser"), "sgd")) return "this board knows fedavg with sgd alone";
  if (get_number(method, "momentum", 0) || get_number(method, "weight_decay", 0)) return "this board knows plain sgd alone";
  if (get(method, "up") || get(method, "down") || get_text(board->sheet, "frozen")[0] || get(method, "private"))
    return "this board knows no codecs, frozen weights or noise";
  Json *description = json_parse(written->string, written->length);
  const char *refusal = description ? read_model(description, &board->model) : "the description of the model is not JSON";
  json_free(description);
  return refusal;
}

/* The head of a report for this work, after it was done; `payload` is the update. */
static char *do_work(Board *board, const Json *work, uint8_t **payload, size_t *length) {
  const char *nonce = get_text(work, "nonce"), *kind = get_text(work, "kind");
  *payload = NULL, *length = 0;
  double began = now();
  if (board->refusal || get_number(work, "share", 1) != 1 || (get(work, "settings") && get(work, "settings")->child) ||
      (get(work, "rows") && get(work, "rows")->child))
    return text("{\"nonce\": \"%s\", \"kind\": \"%s\", \"declined\": \"%s\"}", nonce, kind,
                board->refusal ? board->refusal : "this board does whole tasks alone");
  Json *blob = get(work, "model");
  char *path = text("/v1/blobs/%s", get_text(blob, "name"));
  Reply reply = call(&board->server, "GET", path, "", "", 0);
  free(path);
  Tensors file = {0};
  if (reply.status != 200 || (double)reply.length != get_number(blob, "nbytes", -1) ||
      crc32c(reply.body, reply.length) != (uint32_t)get_number(blob, "crc32c", -1) || !open_tensors(reply.body, reply.length, &file) ||
      !load_weights(&board->model, &file)) { /* gone, or damaged: ask again */
    json_free(file.table);
    free(reply.body);
    return NULL;
  }
  double download = now() - began;
  char *head;
  size_t correct;
  if (!strcmp(kind, "TRAIN")) {
    Json *method = get(board->sheet, "algorithm");
    Training how = {get_number(method, "lr", 0.1), (size_t)get_number(method, "epochs", 1), (size_t)get_number(method, "batch", 16),
                    (size_t)get_number(work, "steps", 0)};
    if (!how.batch) how.batch = 1;
    double loss = train_model(&board->model, &board->train, board->train.count, how);
    double weight = strcmp(get_text(method, "weigh"), "samples") ? 1 : (double)board->train.count;
    *payload = make_update(&board->model, reply.body, reply.length, &file), *length = reply.length;
    head = text("{\"nonce\": \"%s\", \"nbytes\": \"%zu\", \"crc32c\": %u, \"weight\": %.17g, \"stats\": {\"loss\": %.9g, \"samples\": %zu}, "
                "\"spent\": {\"download\": %.6f, \"compute\": %.6f}}",
                nonce, *length, crc32c(*payload, *length), weight, loss, board->train.count, download, now() - began - download);
  } else {
    const Samples *samples = strcmp(kind, "PROBE") ? &board->test : &board->train;
    double loss = test_model(&board->model, samples, &correct);
    head = text("{\"nonce\": \"%s\", \"kind\": \"%s\", \"correct\": \"%zu\", \"total\": \"%zu\", \"loss\": %.9g}", nonce, kind, correct,
                samples->count, loss);
  }
  json_free(file.table);
  free(reply.body);
  return head;
}

/* Hands a report in until it is safe or unwanted; what to do next, or NULL. */
static Json *hand_in(Board *board, const char *task, const char *head, const uint8_t *payload, size_t length) {
  char *path = text("/v1/reports/%s", task), *lines = text("FedFleet-Report: %s\r\n", head);
  Json *next = NULL;
  for (int tries = 0; tries < 20; tries++) {
    Json *receipt = call_json(&board->server, "PUT", path, lines, payload ? payload : (const uint8_t *)"", length);
    const char *status = get_text(receipt, "status");
    printf("task %s: %s %s\n", task, status, get_text(receipt, "reason"));
    fflush(stdout);
    if (strcmp(status, "RETRY") && strcmp(status, "BUSY")) {
      for (Json **one = &receipt->child; *one; one = &(*one)->next)
        if (!strcmp((*one)->key, "next") && (*one)->kind == '{') {
          next = *one;
          *one = next->next;
          next->next = NULL;
          break;
        }
      json_free(receipt);
      break;
    }
    wait_seconds(fmax(get_number(receipt, "seconds", 0), 0.2));
    json_free(receipt);
  }
  free(path), free(lines);
  return next;
}

static void free_board(Board *board) {
  hang_up(&board->server);
  free(board->server.authorization);
  json_free(board->sheet);
  for (int i = 0; i < board->model.count; i++) {
    Layer *layer = &board->model.layers[i];
    void *parts[] = {layer->weight, layer->bias, layer->w, layer->b, layer->dw, layer->db, layer->value, layer->slope};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) free(parts[k]);
  }
  free(board->train.x), free(board->train.y), free(board->test.x), free(board->test.y);
}

int main(int argc, char **argv) {
  Board board = {.server = {.socket = -1, .patience = 60}};
  const char *token = "", *data = NULL, *state = "board.state";
  if (argc < 3 || argc % 2 == 0) {
    fputs("usage: board HOST PORT [--token TOKEN] [--data own.csv] [--state FILE]\n", stderr);
    return 2;
  }
  board.server.host = argv[1], board.server.port = argv[2];
  for (int i = 3; i < argc; i += 2) {
    if (!strcmp(argv[i], "--token")) token = argv[i + 1];
    else if (!strcmp(argv[i], "--data")) data = argv[i + 1];
    else if (!strcmp(argv[i], "--state")) state = argv[i + 1];
    else return fprintf(stderr, "board: there is no option %s\n", argv[i]), 2;
  }
  draw_state ^= (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
  size_t width = 0;
  if (data) read_csv(data, &width, &board.train, &board.test);
  enrol(&board, token, state, data);
  board.refusal = read_sheet(&board);
  if (!board.refusal && data && width != board.model.inputs) fail("a sample has %zu numbers, and the model takes %zu", width, board.model.inputs);
  if (!board.refusal && !data) read_shard(&board.server, board.model.inputs, &board.train, &board.test);
  if (!board.refusal) check_labels(&board.train, &board.model), check_labels(&board.test, &board.model);
  else printf("it declines all tasks: %s\n", board.refusal);

  for (Json *answer = NULL;;) {
    if (!answer) answer = call_json(&board.server, "POST", "/v1/check", "", "{\"hold\": true}", 14);
    Json *work = get(answer, "work"), *later = get(answer, "later"), *over = get(answer, "over"), *next = NULL;
    if (over) {
      printf("over: %s\n", get_text(over, "reason"));
      json_free(answer);
      free_board(&board);
      return 0;
    }
    if (work) {
      uint8_t *payload;
      size_t length;
      char *head = do_work(&board, work, &payload, &length);
      if (head) next = hand_in(&board, get_text(work, "task"), head, payload, length);
      else wait_seconds(0.5);
      free(head), free(payload);
    } else {
      wait_seconds(later ? get_number(later, "seconds", 1) : 1);
    }
    json_free(answer);
    answer = next;
  }
}
