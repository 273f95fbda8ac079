// SPDX-License-Identifier: GPL-2.0
/*
 * What is done to a perf event array that is not ours: asking whether a slot is taken, and writing
 * an end marker. Both are run by BPF_PROG_TEST_RUN alone, on `events` in whose place the array is
 * put.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

/* struct bpf_perf_event_value of include/uapi/linux/bpf.h */
struct counts {
	__u64 counter;
	__u64 enabled;
	__u64 running;
};

/* -ENOENT of an empty slot; anything else of one that holds an event. The slot is the first word.
 */
SEC("raw_tp")
int slot_state(__u64 *ctx)
{
	struct counts counts = {};

	return bpf_perf_event_read_value(&events, ctx[0] & BPF_F_CURRENT_CPU, (void *)&counts,
					 sizeof(counts));
}

/* Writes two words, the first of which nobody else knows: it flushes a pending loss and proves that
 * slot and ring are still ours. */
SEC("raw_tp")
int end_marker(__u64 *ctx)
{
	struct {
		__u64 words[2];
		__u32 zero;
	} __attribute__((packed)) mark = {{ctx[0], ctx[1]}, 0};

	return bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &mark, sizeof(mark));
}
