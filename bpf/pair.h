/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Entries and returns of one call: the entry keeps its arguments and its time in a map, the return
 * takes them out.
 *
 * The key is the thread and where the call's frame is, which no other call of the thread has while
 * this one lasts: recursion needs no depth to be counted, and a return that the kernel never
 * reports leaves the others alone.
 */
#ifndef TRACER_PAIR_H
#define TRACER_PAIR_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct tracer_key);
	__type(value, struct tracer_half);
} pairs SEC(".maps");

_Static_assert(sizeof(struct tracer_half) <= sizeof(__u64) * TRACER_BASES, "a half is of bases");
#define TRACER_HALF_TIME 7
_Static_assert(__builtin_offsetof(struct tracer_half, time) == 8 * TRACER_HALF_TIME, "as named");

static __always_inline void set_key(struct tracer_level *level, __u64 place)
{
	*(volatile __u64 *)&level->key.place = place;
	level->key.thread = bpf_get_current_pid_tgid();
	level->key.zero = 0;
}

/* Keeps the bases of an entry for its return, and ends the run. */
static __always_inline int keep_half(struct tracer_accounts *mine, struct tracer_level *level,
				     __u64 place)
{
	long err;

	set_key(level, place);
	set_base(level, TRACER_HALF_TIME, bpf_ktime_get_ns());
	err = bpf_map_update_elem(&pairs, &level->key, level->bases, BPF_NOEXIST);
	if (err == -17) {
		/* EEXIST: the call that had this frame has gone, and its return was never seen. */
		err = bpf_map_update_elem(&pairs, &level->key, level->bases, BPF_ANY);
		if (!err)
			count(mine->unreturned);
	}
	release(level);
	if (err)
		count(mine->nomem);
	else
		count(mine->stored);
	return 0;
}

/*
 * Takes what the entry kept, where the probe wants it; false and the end of the run where there is
 * no such entry.
 */
static __always_inline bool take_half(struct tracer_accounts *mine, struct tracer_level *level,
				      __u64 place)
{
	struct tracer_half *half;

	if (!config.pair)
		return true;
	set_key(level, place);
	half = bpf_map_lookup_elem(&pairs, &level->key);
	if (!half) {
		release(level);
		count(mine->filtered);
		count(mine->unpaired);
		return false;
	}
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < TRACER_ARGS; i++)
		if (i < config.nargs)
			set_base(level, i, half->args[i]);
	if (config.builtins & 1 << TRACER_BASE_LAT)
		set_base(level, TRACER_BASE_LAT, bpf_ktime_get_ns() - half->time);
	bpf_map_delete_elem(&pairs, &level->key);
	count(mine->paired);
	return true;
}

#endif
