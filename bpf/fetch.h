/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Capturing fields and judging predicates: one bounded routine, specialised by the probe's
 * configuration.
 *
 * Every loop has constant data in a loaded program: the configuration is frozen before the verifier
 * walks it, so in each round it knows the field and drops what the field does not do. The one
 * danger is a branch on data between the first field and the verdict: each would double the states
 * of all that follow. So errors and lengths are carried in bits and masks, and `keep()` stops clang
 * from turning those into branches again.
 */
#ifndef TRACER_FETCH_H
#define TRACER_FETCH_H

/* Hides where a value came from. */
#define keep(value) asm volatile("" : "+r"(value))

/* All ones where a helper failed. */
static __always_inline __u64 failed(long result)
{
	__s64 sign = result;

	keep(sign);
	return sign >> 63;
}

/*
 * A slot is stored whole, at a multiple of eight in its level: the verifier forbids to take a
 * pointer apart, and byte by byte it is slow. `at` is constant in a loaded program.
 */
static __always_inline void set_slot(struct tracer_event *event, __u32 at, __u64 value)
{
	*(volatile __u64 *)((void *)event + (at & 4095)) = value;
}

static __always_inline __u64 get_slot(struct tracer_event *event, __u32 at)
{
	return *(volatile __u64 *)((void *)event + (at & 4095));
}

/* Reads an integer of constant size, or its address' worth of nothing where that fails. */
static __always_inline long read_memory(void *to, __u32 size, __u64 from, bool user)
{
	if (user)
		return bpf_probe_read_user(to, size, (void *)from);
	return bpf_probe_read_kernel(to, size, (void *)from);
}

/* How many bytes a helper copied: none where it failed, and never more than the verifier can see.
 */
static __always_inline __u64 copied(long result, __u64 bad)
{
	__u64 n = result;

	n &= ~bad;
	keep(n);
	return n & (2 * TRACER_TEXT - 1);
}

static __always_inline long read_text(void *to, __u32 size, __u64 from, bool user)
{
	if (user)
		return bpf_probe_read_user_str(to, size, (void *)from);
	return bpf_probe_read_kernel_str(to, size, (void *)from);
}

/* The bytes of an array whose length its record tells, but no more than were asked for. */
static __always_inline __u64 at_most(__u64 there, __u64 asked)
{
	__u64 more = (__s64)(asked - there) >> 63;

	keep(more);
	there = (there & ~more) | (asked & more);
	keep(there);
	return there & (2 * TRACER_TEXT - 1);
}

#include "path.h"

/* A string, bytes, a stack or a path into the dynamic space; `there` bytes lie where a record's
 * array is.
 */
static __always_inline __u64 fetch_bytes(void *ctx, struct tracer_level *level,
					 const volatile struct tracer_fetch *f, __u64 from,
					 __u64 there)
{
	__u64 at = level->dynamic & (TRACER_DYNAMIC - 1), bad, n;
	void *to = (void *)&level->event + config.dynamic + at;
	long result;

	if (f->kind == TRACER_FETCH_BYTES && f->loc) {
		n = at_most(there, f->size);
		result = read_memory(to, n, from, false);
		bad = failed(result);
		n = copied(n, bad);
	} else if (f->kind == TRACER_FETCH_BYTES) {
		result = read_memory(to, f->size, from, f->user);
		bad = failed(result);
		n = copied(f->size, bad);
	} else if (f->kind == TRACER_FETCH_STACK) {
		result = bpf_get_stack(ctx, to, f->size, f->user ? BPF_F_USER_STACK : 0);
		bad = failed(result);
		n = copied(result, bad);
	} else if (f->kind == TRACER_FETCH_PATH || f->kind == TRACER_FETCH_DENTRY) {
		result = read_path(level, to, from, f->kind == TRACER_FETCH_DENTRY);
		bad = failed(result);
		n = copied(result, bad);
	} else {
		result = read_text(to, f->size, from, f->user);
		bad = failed(result);
		n = copied(result, bad);
	}
	/* What follows up to the next multiple of eight is emitted too, and was somebody else's. */
	*(volatile __u64 *)(to + n) = 0;
	set_slot(&level->event, f->at, n << 16 | (config.dynamic + at));
	level->dynamic = at + ((n + 7) & ~7ULL);
	return bad;
}

/* A string into as many zeroed slots as hold it, for the predicate to compare by words. */
static __always_inline __u64 fetch_words(struct tracer_event *event,
					 const volatile struct tracer_fetch *f, __u64 from)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TRACER_GLOB / 8; i++) {
		if (8 * i >= f->size)
			break;
		set_slot(event, f->at + 8 * i, 0);
	}
	return failed(read_text((void *)event + (f->at & 4095), f->size, from, f->user));
}

/* The integer out of what was read. */
static __always_inline __u64 cut(const volatile struct tracer_fetch *f, __u64 value)
{
	if (f->shl)
		value <<= f->shl & 63;
	if (f->shr && f->sign)
		value = (__s64)value >> (f->shr & 63);
	else if (f->shr)
		value >>= f->shr & 63;
	return value;
}

/* A word or less of memory; 0 where it cannot be read, which `faults` tells. */
static __always_inline __u64 word(struct tracer_level *level, __u32 size, __u64 from, bool user,
				  __u32 i)
{
	long result;

	level->value = 0;
	result = read_memory(&level->value, size & 15, from, user);
	level->faults |= failed(result) & (1ULL << (i & 63));
	return *(volatile __u64 *)&level->value;
}

/* Captures field `i`. A function of its own has a frame of its own: see open_event in emit.h. */
static __noinline int fetch(void *ctx, struct tracer_level *level, __u32 i)
{
	const volatile struct tracer_fetch *f = &config.fetch[i & (TRACER_FIELDS - 1)];
	__u64 value = level->bases[f->base & (TRACER_BASES - 1)], bad, there = 0;

#pragma clang loop unroll(disable)
	for (__u32 step = 0; step < TRACER_STEPS; step++) {
		if (step >= f->nsteps)
			break;
		value = word(level, sizeof(value), value + f->off[step], f->user_steps, i);
	}
	if (f->last)
		value += f->last;
	if (f->loc) {
		__u64 loc = word(level, sizeof(__u32), value, false, i);

		value = f->loc == 2 ? value + sizeof(__u32) : level->bases[TRACER_BASE_RECORD];
		value += loc & 0xffff;
		there = loc >> 16;
	}
	if (f->kind == TRACER_FETCH_MEMORY) {
		set_slot(&level->event, f->at, cut(f, word(level, f->size, value, f->user, i)));
	} else if (f->kind == TRACER_FETCH_VALUE) {
		set_slot(&level->event, f->at, cut(f, value));
	} else {
		if (f->kind == TRACER_FETCH_WORDS)
			bad = fetch_words(&level->event, f, value);
		else
			bad = fetch_bytes(ctx, level, f, value, there);
		level->faults |= bad & (1ULL << (i & 63));
	}
	return 0;
}

/* The bits that a comparison of two numbers can give. */
static __always_inline __u64 compare(__u64 left, __u64 right)
{
	/* less and equal without a branch: the borrow of left - right, and of their difference - 1
	 */
	__u64 difference = left ^ right;
	__u64 less = (~left & right) | ((~left | right) & (left - right));
	__u64 equal = ~(difference | -difference);

	keep(less);
	keep(equal);
	less >>= 63;
	equal >>= 63;
	return less * TRACER_LESS | equal * TRACER_EQUAL | (~(less | equal) & 1) * TRACER_MORE;
}

/*
 * Whether a string in slots matches the predicate's pattern: bit i of the state stands where the
 * first i tokens have matched. The string ends at its NUL or with its slots; the bits of `going`
 * keep the state from then on, so that there is no branch on data.
 */
static __noinline int glob_matches(struct tracer_level *level, __u32 i)
{
	const volatile struct tracer_op *op = &config.ops[i & (TRACER_OPS - 1)];
	__u64 state = 1, going = ~0ULL, next;

#pragma clang loop unroll(disable)
	for (__u32 at = 0; at < TRACER_GLOB; at++) {
		__u8 byte;

		if (at >= op->size)
			break;
		byte = *(volatile __u8 *)((void *)&level->event + ((op->at + at) & 4095));
		next = ((__u64)byte + 0xff) >> 8; /* 0 for the NUL, else 1 */
		keep(next);
		going &= -next;
		keep(going);
		next = (state & config.glob_next[byte]) << 1 | (state & op->mask);
		state = (next & going) | (state & ~going);
	}
	return (state & op->constant) != 0;
}

/* Judges the predicate over the fields captured so far. */
static __noinline int judged(struct tracer_level *level)
{
	__u64 stack = 0; /* of truths, the newest in bit 0 */

	if (config.judges_task)
		fill_task(level);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TRACER_OPS; i++) {
		const volatile struct tracer_op *op = &config.ops[i];
		__u64 a, b;

		if (i >= config.nops)
			break;
		if (op->kind == TRACER_OP_COMPARE) {
			a = (get_slot(&level->event, op->at) & op->mask) ^ op->bias;
			b = compare(a, op->constant ^ op->bias) & op->want;
			b = (b | b >> 1 | b >> 2) & 1;
			/* A field that could not be read compares false. */
			b &= ~(level->faults >> (op->fault & 63));
			stack = stack << 1 | (b & 1);
		} else if (op->kind == TRACER_OP_GLOB) {
			b = glob_matches(level, i);
			b &= ~(level->faults >> (op->fault & 63));
			stack = stack << 1 | (b & 1);
		} else if (op->kind == TRACER_OP_NOT) {
			stack ^= 1;
		} else {
			b = stack & 1;
			stack >>= 1;
			if (op->kind == TRACER_OP_AND)
				stack &= b | ~1ULL;
			else
				stack |= b;
		}
	}
	return config.nops == 0 || stack & 1;
}

#endif
