/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Several events in one record: the helper that outputs is what an event costs most, so a CPU's
 * events wait in a buffer of their scratch level until it is full, or until the reader asks for
 * them.
 */
#ifndef TRACER_GATHER_H
#define TRACER_GATHER_H

/* By CPU and level. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tracer_gather);
} gathers SEC(".maps");

static __always_inline struct tracer_gather *gather_of(__u32 level)
{
	__u32 key = bpf_get_smp_processor_id() * TRACER_LEVELS + level;

	return bpf_map_lookup_elem(&gathers, &key);
}

/* Outputs what is held, if anything, and tells each event's probe what became of it. */
static __noinline int put_out(void *ctx, struct tracer_gather *g)
{
	__u32 key = bpf_get_smp_processor_id();
	struct tracer_cpu *cpu = bpf_map_lookup_elem(&cpus, &key);
	__u64 size = g->used, outcome;
	long err;

	if (!cpu || !g->n)
		return 0;
	if (size > TRACER_GATHER)
		size = TRACER_GATHER; /* cannot be: what does not fit is not added */
	err = bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, g->bytes, size);
	account_output(&cpu->records, err);
	/* One place for both, as the verifier walks each way of a branch with every event. */
	outcome = __builtin_offsetof(struct tracer_accounts, sent) + (err ? sizeof(__u64) : 0);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TRACER_GATHERED; i++) {
		void *theirs;

		if (i >= g->n)
			break;
		theirs = my_accounts(g->probe[i]);
		if (!theirs)
			break; /* cannot be: every probe has accounts */
		count(*(__u64 *)(theirs + outcome));
	}
	g->n = 0;
	return 0;
}

/* Adds the level's event of `size` bytes to the record; false of one that is too large for it. */
static __noinline int add(struct tracer_gather *g, struct tracer_level *level, __u64 size)
{
	__u64 at = g->n ? g->used : TRACER_SHARED_HEAD;

	if (at > TRACER_GATHER - TRACER_EVENT_BEFORE || size > sizeof(level->event))
		return 0;
	if (at + TRACER_EVENT_BEFORE + size > TRACER_GATHER)
		return 0;
	*(__u32 *)g->bytes = TRACER_SHARED;
	*(__u32 *)(g->bytes + at) = size;
	*(volatile __u32 *)(g->bytes + at + 4) = level->value;
	*(volatile __u32 *)(g->bytes + at + 8) = level->value >> 32;
	at += TRACER_EVENT_BEFORE;
	if (bpf_probe_read_kernel(g->bytes + at, size, &level->event))
		return 0; /* cannot be: it is mapped */
	g->probe[g->n & (TRACER_GATHERED - 1)] = level->event.probe;
	g->used = at + size;
	g->n++;
	return 1;
}

/* Puts the level's event among those that wait; false where it is too large for any record. */
static __noinline int hold(void *ctx, struct tracer_level *level, __u64 size)
{
	struct tracer_gather *g = gather_of(level->event.level & (TRACER_LEVELS - 1));
	int added = 0;

	if (!g)
		return 0;
	level->value = bpf_ktime_get_ns();
	/* At most twice: what does not fit behind others does alone, or never. */
#pragma clang loop unroll(disable)
	for (int i = 0; i < 2 && !added; i++) {
		added = add(g, level, size);
		if (!added || g->n >= config.gather)
			put_out(ctx, g);
	}
	return added;
}

/* Gathers the level's event, and gives the level back. */
static __always_inline int gather(void *ctx, struct tracer_accounts *mine,
				  struct tracer_level *level, __u64 size)
{
	if (hold(ctx, level, size))
		count(mine->gathered);
	else
		account_output(mine, bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU,
							   &level->event, size));
	release(level);
	return 0;
}

#endif
