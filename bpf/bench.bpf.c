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

const volatile struct bench_config {
	__u32 tgid;    /* whose writes count */
	__u32 syscall; /* the number of write(2) */
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

static __always_inline struct tracer_accounts *my_accounts(void)
{
	__u32 key = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&accounts, &key);
}

static __always_inline int write_seen(void *ctx, bool is_write)
{
	struct tracer_accounts *mine = my_accounts();
	struct {
		__u64 pid;
		__u64 cookie;
	} data;

	if (!mine)
		return 0;
	count(mine->fired);
	data.pid = bpf_get_current_pid_tgid();
	data.cookie = COOKIE;
	if (!is_write || (__u32)(data.pid >> 32) != config.tgid) {
		count(mine->filtered);
		return 0;
	}
	account_output(mine,
		       bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &data, sizeof(data)));
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

SEC("raw_tp/sys_enter")
int bench_raw_tp(__u64 *ctx)
{
	return write_seen(ctx, ctx[1] == config.syscall);
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
