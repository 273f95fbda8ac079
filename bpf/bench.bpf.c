// SPDX-License-Identifier: GPL-2.0
/*
 * The throughput programs: the job of the kernel's samples/bpf/trace_output of 2015, sixteen bytes
 * a write(2), and outputs of any size by test-run for tests.
 *
 * They are apart from the probes, so that what is measured is the path and not what our events
 * carry.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "tracer.h"
#include "account.h"

char LICENSE[] SEC("license") = "GPL";

#define COOKIE 0x12345678
#define LARGEST 65536 /* bytes of a payload */
#define HELD 16384    /* bytes of the events that share a record */

const volatile struct bench_config {
	__u32 tgid;    /* whose calls count */
	__u32 syscall; /* the number of write(2) */
	__u32 size;    /* bytes of an event, its time aside */
	__u32 timed;   /* an event opens with its time */
	__u32 gather;  /* events that share a record; 1: each has its own */
	__u32 ringbuf; /* events go into the BPF ringbuf */
	__u32 wake_at; /* unread bytes of the ringbuf that wake its reader; 0: its own rule */
} config = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

/* For a second reader of the same records. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} twin_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ringbuf SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tracer_accounts);
} accounts SEC(".maps");

struct payload {
	__u8 bytes[LARGEST];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct payload);
} payloads SEC(".maps");

/* The events of a CPU that wait for their record to be full. */
struct held {
	__u32 n;
	__u32 zero;
	__u8 bytes[HELD];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct held);
} held SEC(".maps");

struct data {
	__u64 pid;
	__u64 cookie;
};

static __always_inline struct tracer_accounts *my_accounts(void)
{
	__u32 key = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&accounts, &key);
}

/* Puts a record out: into the CPU's ring, or the ringbuf that all share. */
static __always_inline long output(void *ctx, void *bytes, __u64 size)
{
	__u64 flags = 0;

	if (!config.ringbuf)
		return bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, bytes, size);
	if (config.wake_at)
		flags = bpf_ringbuf_query(&ringbuf, BPF_RB_AVAIL_DATA) >= config.wake_at
				? BPF_RB_FORCE_WAKEUP
				: BPF_RB_NO_WAKEUP;
	/* It knows one reason to refuse, and calls it EAGAIN. */
	return bpf_ringbuf_output(&ringbuf, bytes, size, flags) ? -28 : 0;
}

/* Puts out what is held, and counts the record, and its events by what became of it. */
static __always_inline void put_out(void *ctx, struct tracer_accounts *mine, struct held *h,
				    __u64 size)
{
	long err = output(ctx, h->bytes, size);

	if (config.gather > 1)
		__sync_fetch_and_add(err ? &mine->unsent : &mine->sent, h->n);
	h->n = 0;
	account_output(mine, err);
}

/*
 * One event. Nothing else runs these programs on the same CPU meanwhile, so that what is held needs
 * no claim: the thread that calls is alone on its CPU, and the reader's own calls are not counted.
 */
static __always_inline void emit(void *ctx, struct tracer_accounts *mine)
{
	__u32 zero = 0, stride = config.size + (config.timed ? 8 : 0);
	struct data data = {.pid = bpf_get_current_pid_tgid(), .cookie = COOKIE};
	struct payload *payload = bpf_map_lookup_elem(&payloads, &zero);
	struct held *h;
	__u32 at;

	if (!payload)
		return;
	if (!config.timed && config.gather <= 1) {
		account_output(mine, config.size == sizeof(data)
					     ? output(ctx, &data, sizeof(data))
					     : output(ctx, payload, config.size));
		return;
	}
	h = bpf_map_lookup_elem(&held, &zero);
	if (!h)
		return;
	at = h->n;
	if (at >= config.gather)
		at = 0; /* cannot be: a full record is put out */
	h->n = at + 1;
	at *= stride;
	if (config.timed) {
		*(__u64 *)(h->bytes + at) = bpf_ktime_get_ns();
		at += 8;
	}
	if (config.size == sizeof(data))
		*(struct data *)(h->bytes + at) = data;
	else
		bpf_probe_read_kernel(h->bytes + at, config.size, payload);
	if (config.gather > 1) {
		count(mine->gathered);
		if (h->n < config.gather)
			return;
	}
	put_out(ctx, mine, h, config.gather * stride);
}

static __always_inline int write_seen(void *ctx, bool is_write)
{
	struct tracer_accounts *mine = my_accounts();

	if (!mine)
		return 0;
	count(mine->fired);
	if (!is_write || (__u32)(bpf_get_current_pid_tgid() >> 32) != config.tgid) {
		count(mine->filtered);
		return 0;
	}
	emit(ctx, mine);
	return 0;
}

SEC("fentry")
int bench_fentry(__u64 *ctx)
{
	return write_seen(ctx, true);
}

SEC("kprobe")
int bench_kprobe(struct pt_regs *ctx)
{
	return write_seen(ctx, true);
}

SEC("tracepoint")
int bench_tracepoint(void *ctx)
{
	return write_seen(ctx, true);
}

SEC("raw_tp/sys_enter")
int bench_raw_tp(__u64 *ctx)
{
	return write_seen(ctx, ctx[1] == config.syscall);
}

/* By test-run: args[0] events as the hooked programs put them out. */
SEC("raw_tp")
int bench_burst(__u64 *ctx)
{
	__u64 times = ctx[0];
	struct tracer_accounts *mine = my_accounts();

	if (!mine)
		return 1;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 256; i++) {
		if ((__u64)i >= times)
			break;
		count(mine->fired);
		emit(ctx, mine);
	}
	return 0;
}

/* By test-run: puts out what the CPU holds. */
SEC("raw_tp")
int bench_flush(__u64 *ctx)
{
	__u32 zero = 0, stride = config.size + (config.timed ? 8 : 0);
	struct held *h = bpf_map_lookup_elem(&held, &zero);
	struct tracer_accounts *mine = my_accounts();
	__u32 n;

	if (!h || !mine)
		return 1;
	n = h->n;
	if (n && n < config.gather)
		put_out(ctx, mine, h, n * stride);
	return 0;
}

/* By test-run: args[0] bytes of the payload, args[1] times, into one array or, with args[2], both.
 */
SEC("raw_tp")
int bench_output(__u64 *ctx)
{
	__u64 size = ctx[0], times = ctx[1], both = ctx[2];
	struct tracer_accounts *mine = my_accounts();
	__u32 zero = 0;
	struct payload *payload = bpf_map_lookup_elem(&payloads, &zero);

	if (!mine || !payload || size < 1 || size > LARGEST)
		return 1;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 256; i++) {
		if ((__u64)i >= times)
			break;
		count(mine->fired);
		account_output(mine, bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, payload,
							   size));
		if (both)
			bpf_perf_event_output(ctx, &twin_events, BPF_F_CURRENT_CPU, payload, size);
	}
	return 0;
}
