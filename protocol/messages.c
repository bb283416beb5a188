/* SPDX-License-Identifier: Apache-2.0 */
/* The codec of each message, writer and reader side by side. */
#include "messages.h"

#include "crc32.h"

static const struct {
	const char *name;
	unsigned from, phase;
} table[] = {
#define M(name, code, side, phase) [code] = { #name, side, phase },
	MESSAGES(M)
#undef M
};

bool message_known(unsigned code)
{
	return code < sizeof(table) / sizeof(*table) && table[code].name;
}

const char *message_name(unsigned code)
{
	return message_known(code) ? table[code].name : "unknown";
}

bool message_legal(unsigned code, enum side from, enum phase now)
{
	return message_known(code) && (table[code].from & from) && (table[code].phase & now);
}

uint32_t session_tag(const uint8_t nonce[16])
{
	struct reader r = { nonce, nonce + 4, false };

	return get_u32(&r);
}

void put_hello(struct writer *w, const struct msg_hello *m)
{
	const uint8_t *start = w->at;

	put_u16(w, m->generation);
	put_u32(w, m->build);
	put_raw(w, m->nonce, sizeof(m->nonce));
	put_raw(w, m->epoch, sizeof(m->epoch));
	put_raw(w, m->boot_id, sizeof(m->boot_id));
	put_u16(w, m->flags);
	put_u32(w, w->bad ? 0 : crc32_of(start, (size_t)(w->at - start)));
}

bool get_hello(struct bytes body, struct msg_hello *m)
{
	struct reader r = reader_of(body);

	m->generation = get_u16(&r);
	m->build = get_u32(&r);
	get_raw(&r, m->nonce, sizeof(m->nonce));
	get_raw(&r, m->epoch, sizeof(m->epoch));
	get_raw(&r, m->boot_id, sizeof(m->boot_id));
	m->flags = get_u16(&r);
	return get_u32(&r) == crc32_of(body.data, body.len - (body.len < 4 ? body.len : 4)) &&
	       reader_done(&r) && !(m->flags & ~HELLO_FLAGS);
}

/* A string of the guest's operating system: no NUL in it. */
static struct bytes get_string(struct reader *r)
{
	struct bytes b = get_bytes(r);

	if (b.len && memchr(b.data, 0, b.len))
		r->bad = true;
	return b;
}

static uint16_t get_strings(struct reader *r, struct bytes *strings, uint16_t max)
{
	uint16_t n = get_u16(r);

	if (n > max)
		r->bad = true;
	for (uint16_t i = 0; i < n && !r->bad; i++)
		strings[i] = get_string(r);
	return r->bad ? 0 : n;
}

static void put_strings(struct writer *w, const struct bytes *strings, uint16_t n)
{
	put_u16(w, n);
	for (uint16_t i = 0; i < n; i++)
		put_bytes(w, strings[i]);
}

void put_exec(struct writer *w, const struct msg_exec *m)
{
	put_u16(w, m->flags);
	put_u16(w, m->rows);
	put_u16(w, m->columns);
	put_u32(w, m->deadline_ms);
	put_u32(w, m->grace_ms);
	put_u64(w, m->output_max);
	put_bytes(w, m->user);
	put_bytes(w, m->dir);
	put_strings(w, m->argv, m->argc);
	put_strings(w, m->env, m->envc);
}

bool get_exec(struct bytes body, struct msg_exec *m)
{
	struct reader r = reader_of(body);

	m->flags = get_u16(&r);
	m->rows = get_u16(&r);
	m->columns = get_u16(&r);
	m->deadline_ms = get_u32(&r);
	m->grace_ms = get_u32(&r);
	m->output_max = get_u64(&r);
	m->user = get_string(&r);
	m->dir = get_string(&r);
	m->argc = get_strings(&r, m->argv, ARGS_MAX);
	m->envc = get_strings(&r, m->env, ENV_MAX);
	return reader_done(&r) && m->argc && m->argv[0].len && !(m->flags & ~EXEC_FLAGS) &&
	       m->dir.len < PATH_LENGTH && m->user.len <= USER_LENGTH &&
	       ((m->flags & EXEC_PTY) || (!m->rows && !m->columns));
}

void put_failed(struct writer *w, const struct msg_failed *m)
{
	put_u16(w, m->kind);
	put_u32(w, m->error);
	put_bytes(w, m->text);
}

bool get_failed(struct bytes body, struct msg_failed *m)
{
	struct reader r = reader_of(body);

	m->kind = get_u16(&r);
	m->error = get_u32(&r);
	m->text = get_bytes(&r);
	return reader_done(&r) && m->kind >= FAIL_NOT_FOUND && m->kind <= FAIL_USER &&
	       m->text.len <= TEXT_MAX;
}

void put_started(struct writer *w, const struct msg_started *m)
{
	put_u32(w, m->pid);
}

bool get_started(struct bytes body, struct msg_started *m)
{
	struct reader r = reader_of(body);

	m->pid = get_u32(&r);
	return reader_done(&r);
}

void put_credit(struct writer *w, const struct msg_credit *m)
{
	put_u32(w, m->bytes);
}

bool get_credit(struct bytes body, struct msg_credit *m)
{
	struct reader r = reader_of(body);

	m->bytes = get_u32(&r);
	return reader_done(&r) && m->bytes && m->bytes <= STREAM_WINDOW;
}

void put_exit(struct writer *w, const struct msg_exit *m)
{
	put_u16(w, m->flags);
	put_u16(w, m->value);
	put_u64(w, m->stdout_bytes);
	put_u64(w, m->stderr_bytes);
	put_u64(w, m->stdout_cut);
	put_u64(w, m->stderr_cut);
	put_u32(w, m->left_behind);
	put_u16(w, m->listed);
	for (uint16_t i = 0; i < m->listed; i++) {
		put_u32(w, m->left[i].pid);
		put_bytes(w, m->left[i].name);
	}
}

bool get_exit(struct bytes body, struct msg_exit *m)
{
	struct reader r = reader_of(body);

	m->flags = get_u16(&r);
	m->value = get_u16(&r);
	m->stdout_bytes = get_u64(&r);
	m->stderr_bytes = get_u64(&r);
	m->stdout_cut = get_u64(&r);
	m->stderr_cut = get_u64(&r);
	m->left_behind = get_u32(&r);
	m->listed = get_u16(&r);
	if (m->listed > LEFT_MAX || m->listed > m->left_behind)
		return false;
	for (uint16_t i = 0; i < m->listed; i++) {
		m->left[i].pid = get_u32(&r);
		m->left[i].name = get_string(&r);
		if (m->left[i].name.len > COMM_LENGTH)
			return false;
	}
	return reader_done(&r) && !(m->flags & ~EXIT_FLAGS) && m->value <= 255;
}

void put_signal(struct writer *w, const struct msg_signal *m)
{
	put_u16(w, m->number);
}

bool get_signal(struct bytes body, struct msg_signal *m)
{
	struct reader r = reader_of(body);

	m->number = get_u16(&r);
	return reader_done(&r) && m->number >= 1 && m->number <= 64;
}

void put_resize(struct writer *w, const struct msg_resize *m)
{
	put_u16(w, m->rows);
	put_u16(w, m->columns);
}

bool get_resize(struct bytes body, struct msg_resize *m)
{
	struct reader r = reader_of(body);

	m->rows = get_u16(&r);
	m->columns = get_u16(&r);
	return reader_done(&r);
}

void put_query(struct writer *w, const struct msg_query *m)
{
	put_u32(w, m->stdout_credit);
	put_u32(w, m->stderr_credit);
}

bool get_query(struct bytes body, struct msg_query *m)
{
	struct reader r = reader_of(body);

	m->stdout_credit = get_u32(&r);
	m->stderr_credit = get_u32(&r);
	return reader_done(&r) && m->stdout_credit <= STREAM_WINDOW &&
	       m->stderr_credit <= STREAM_WINDOW;
}

void put_status(struct writer *w, const struct msg_status *m)
{
	put_u16(w, m->state);
	put_u64(w, m->stdin_bytes);
	put_u32(w, m->stdin_credit);
	put_u64(w, m->stdout_bytes);
	put_u64(w, m->stderr_bytes);
}

bool get_status(struct bytes body, struct msg_status *m)
{
	struct reader r = reader_of(body);

	m->state = get_u16(&r);
	m->stdin_bytes = get_u64(&r);
	m->stdin_credit = get_u32(&r);
	m->stdout_bytes = get_u64(&r);
	m->stderr_bytes = get_u64(&r);
	return reader_done(&r) && m->state <= STATUS_ENDED && m->stdin_credit <= STREAM_WINDOW;
}

/* Flags and an absolute path of the guest. */
static void put_place(struct writer *w, uint16_t flags, struct bytes path)
{
	put_u16(w, flags);
	put_bytes(w, path);
}

static bool get_place(struct bytes body, uint16_t *ret_flags, struct bytes *ret_path)
{
	struct reader r = reader_of(body);

	*ret_flags = get_u16(&r);
	*ret_path = get_string(&r);
	return reader_done(&r) && !(*ret_flags & ~TREE_FLAGS) && ret_path->len &&
	       ret_path->data[0] == '/' && ret_path->len < PATH_LENGTH;
}

void put_put(struct writer *w, const struct msg_put *m)
{
	put_place(w, m->flags, m->path);
}

bool get_put(struct bytes body, struct msg_put *m)
{
	return get_place(body, &m->flags, &m->path) && !(m->flags & TREE_MANIFEST) &&
	       m->path.len > 1;
}

void put_get(struct writer *w, const struct msg_get *m)
{
	put_place(w, m->flags, m->path);
}

bool get_get(struct bytes body, struct msg_get *m)
{
	return get_place(body, &m->flags, &m->path);
}

void put_done(struct writer *w, const struct msg_done *m)
{
	put_u64(w, m->entries);
	put_u64(w, m->bytes);
}

bool get_done(struct bytes body, struct msg_done *m)
{
	struct reader r = reader_of(body);

	m->entries = get_u64(&r);
	m->bytes = get_u64(&r);
	return reader_done(&r);
}

void put_prepare(struct writer *w, const struct msg_prepare *m)
{
	put_u32(w, m->deadline_ms);
}

bool get_prepare(struct bytes body, struct msg_prepare *m)
{
	struct reader r = reader_of(body);

	m->deadline_ms = get_u32(&r);
	return reader_done(&r) && m->deadline_ms;
}

void put_prepared(struct writer *w, const struct msg_prepared *m)
{
	put_u32(w, m->error);
	put_u32(w, m->running);
}

bool get_prepared(struct bytes body, struct msg_prepared *m)
{
	struct reader r = reader_of(body);

	m->error = get_u32(&r);
	m->running = get_u32(&r);
	return reader_done(&r);
}

void put_heal(struct writer *w, const struct msg_heal *m)
{
	put_u64(w, m->realtime_ns);
	put_bytes(w, m->seed);
}

bool get_heal(struct bytes body, struct msg_heal *m)
{
	struct reader r = reader_of(body);

	m->realtime_ns = get_u64(&r);
	m->seed = get_bytes(&r);
	return reader_done(&r) && m->seed.len <= SEED_MAX;
}

void put_healed(struct writer *w, const struct msg_healed *m)
{
	put_u32(w, m->error);
}

bool get_healed(struct bytes body, struct msg_healed *m)
{
	struct reader r = reader_of(body);

	m->error = get_u32(&r);
	return reader_done(&r);
}

void put_ping(struct writer *w, const struct msg_ping *m)
{
	put_u64(w, m->token);
}

bool get_ping(struct bytes body, struct msg_ping *m)
{
	struct reader r = reader_of(body);

	m->token = get_u64(&r);
	return reader_done(&r);
}

void put_pong(struct writer *w, const struct msg_pong *m)
{
	put_u64(w, m->token);
	put_u64(w, m->uptime_ms);
	put_u16(w, m->cpu);
	put_u16(w, m->memory);
	put_u16(w, m->io);
	put_u16(w, m->operations);
}

bool get_pong(struct bytes body, struct msg_pong *m)
{
	struct reader r = reader_of(body);

	m->token = get_u64(&r);
	m->uptime_ms = get_u64(&r);
	m->cpu = get_u16(&r);
	m->memory = get_u16(&r);
	m->io = get_u16(&r);
	m->operations = get_u16(&r);
	return reader_done(&r);
}
