/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What `tracer stat` has in place of events: for each key a count, a sum and a histogram.
 *
 * A tally belongs to one CPU and one scratch level of it, both of them part of its key. A run holds
 * its level until it is done, so nobody else writes its tallies meanwhile, whatever interrupts or
 * preempts it: plain additions are exact, and so are minimum and maximum, for which 5.10 has no
 * atomics. In a per-CPU map a program could be interrupted between reading a value and writing it
 * by another with the same key.
 */
#ifndef TRACER_TALLY_H
#define TRACER_TALLY_H

/* All tallies of a session. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct tracer_group);
	__type(value, struct tracer_tally);
} tallies SEC(".maps");

/* What a tally begins as: zeros, which are too many for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tracer_tally);
} blank SEC(".maps");

/* The stacks that are keys, by the ids that the kernel gives them. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64) * TRACER_FRAMES);
} stacks SEC(".maps");

_Static_assert(sizeof(struct tracer_group) <= sizeof(__u64) * TRACER_BASES, "a group is of bases");

/* The integer in a slot, or in the head of the event. */
static __always_inline __u64 number(struct tracer_level *level,
				    const volatile struct tracer_number *from)
{
	__u64 value = get_slot(&level->event, from->at) << (from->shift & 63);

	return from->sign ? (__s64)value >> (from->shift & 63) : value >> (from->shift & 63);
}

/* Whether a field could not be read. */
static __always_inline bool faulty(struct tracer_level *level,
				   const volatile struct tracer_number *from)
{
	return level->faults >> (from->fault & 63) & 1;
}

/* Which bucket of the histogram a value is counted in: 0 is for what is below zero, 1 for zero, and
 * 1 + n for values of n bits. */
static __always_inline __u32 bucket(__u64 value)
{
	__u64 below = config.of.sign ? (__s64)value >> 63 : 0;

	/* All bits below the highest are set, and counted, with no branch. */
	value |= value >> 1;
	value |= value >> 2;
	value |= value >> 4;
	value |= value >> 8;
	value |= value >> 16;
	value |= value >> 32;
	value -= value >> 1 & 0x5555555555555555ULL;
	value = (value & 0x3333333333333333ULL) + (value >> 2 & 0x3333333333333333ULL);
	value = (value + (value >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	value = (value * 0x0101010101010101ULL) >> 56;
	return (value + 1) & ~below;
}

/* Puts the key of a run into the bases, which nothing needs any more. */
static __always_inline void set_group(void *ctx, struct tracer_level *level)
{
	__u64 words[2] = {}, why = 0;
	long id;

	if (config.by.kind == TRACER_BY_NUMBER) {
		if (faulty(level, &config.by))
			why = 14; /* EFAULT */
		else
			words[0] = number(level, &config.by);
	} else if (config.by.kind == TRACER_BY_COMM) {
		words[0] = get_slot(&level->event, __builtin_offsetof(struct tracer_event, comm));
		words[1] =
			get_slot(&level->event, __builtin_offsetof(struct tracer_event, comm) + 8);
	} else if (config.by.kind) {
		bool user = config.by.kind == TRACER_BY_USTACK;

		id = bpf_get_stackid(ctx, &stacks, user ? BPF_F_USER_STACK : 0);
		if (id < 0)
			why = -id;
		else
			words[0] = id;
		if (user)
			words[1] = level->event.tgid;
	}
	set_base(level, 0, words[0]);
	set_base(level, 1, words[1]);
	set_base(level, 2, (__u64)bpf_get_smp_processor_id() << 32 | level->event.probe);
	set_base(level, 3, why << 32 | level->event.level);
}

/* Adds a run to its tally; an errno where there is no room for one. */
static __noinline int add_to_tally(void *ctx, struct tracer_level *level)
{
	struct tracer_tally *tally;
	__u64 value;
	__u32 at;
	int err;

	set_group(ctx, level);
	tally = bpf_map_lookup_elem(&tallies, level->bases);
	if (!tally) {
		__u32 zero = 0;
		void *begin = bpf_map_lookup_elem(&blank, &zero);

		if (!begin)
			return -2; /* cannot be: the array has one */
		err = bpf_map_update_elem(&tallies, level->bases, begin, BPF_NOEXIST);
		if (err)
			return err;
		tally = bpf_map_lookup_elem(&tallies, level->bases);
		if (!tally)
			return -2;
	}
	tally->count++;
	if (!config.of.kind || faulty(level, &config.of))
		return 0;
	value = number(level, &config.of);
	if (config.of.sign) {
		if (!tally->valued || (__s64)value < (__s64)tally->min)
			tally->min = value;
		if (!tally->valued || (__s64)value > (__s64)tally->max)
			tally->max = value;
	} else {
		if (!tally->valued || value < tally->min)
			tally->min = value;
		if (!tally->valued || value > tally->max)
			tally->max = value;
	}
	tally->valued++;
	tally->sum += value;
	at = bucket(value);
	if (at < TRACER_BUCKETS)
		tally->histogram[at]++;
	return 0;
}

/* Ends a run that is added to a tally and emits nothing. */
static __always_inline int keep_tally(void *ctx, struct tracer_accounts *mine,
				      struct tracer_level *level)
{
	int err = add_to_tally(ctx, level);

	release(level);
	if (!err)
		count(mine->tallied);
	else if (err == -7 || err == -12) /* E2BIG, ENOMEM */
		count(mine->nomem);
	else if (err == -16)
		count(mine->ebusy);
	else
		count(mine->other);
	return 0;
}

#endif
