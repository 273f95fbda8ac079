/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every probe does: counts its run, asks whether its task is wanted, builds an event in a
 * scratch level of its own, and emits it; and the maps that all probes share.
 */
#ifndef TRACER_EMIT_H
#define TRACER_EMIT_H

const volatile struct tracer_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tracer_accounts);
} accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tracer_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} cgroups SEC(".maps");

/* Which function a program runs for, where it serves several and has no cookie: by its address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} functions SEC(".maps");

/* The address of the function that a kprobe at its entry runs for: x86 has stepped over a byte. */
static __always_inline __u64 function_address(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return PT_REGS_IP(regs) - 1;
#else
	return PT_REGS_IP(regs);
#endif
}

/* The probe that this run is of. */
static __always_inline __u32 my_probe(void *ctx)
{
	if (config.many == TRACER_MANY_COOKIE)
		return config.probe + bpf_get_attach_cookie(ctx);
	if (config.many == TRACER_MANY_ADDRESS) {
		__u64 address = function_address(ctx);
		__u32 *nth = bpf_map_lookup_elem(&functions, &address);

		return config.probe + (nth ? *nth : 0);
	}
	return config.probe;
}

static __always_inline struct tracer_accounts *my_accounts(__u32 probe)
{
	__u32 key = bpf_get_smp_processor_id() * config.probes + probe;

	return bpf_map_lookup_elem(&accounts, &key);
}

struct ids {
	__u32 tgid;
	__u32 pid;
	__u32 probe;
};

/* The current task's ids in the tracer's PID namespace; 0 for tasks outside it. */
static __always_inline struct ids my_ids(__u32 probe)
{
	struct ids ids = {.probe = probe};

	if (config.pidns_ino) {
		struct bpf_pidns_info ns = {};

		if (!bpf_get_ns_current_pid_tgid(config.pidns_dev, config.pidns_ino, &ns,
						 sizeof(ns))) {
			ids.tgid = ns.tgid;
			ids.pid = ns.pid;
		}
	} else {
		__u64 both = bpf_get_current_pid_tgid();

		ids.tgid = both >> 32;
		ids.pid = both;
	}
	return ids;
}

/* A function of its own has a frame of its own: see claim_level. */
static __noinline int comm_matches(void)
{
	char comm[TRACER_COMM] = {};
	__u32 state = 1;

	bpf_get_current_comm(comm, sizeof(comm));
#pragma clang loop unroll(full)
	for (int i = 0; i < TRACER_COMM; i++) {
		__u8 byte = comm[i];

		if (!byte)
			break;
		state = ((state & config.comm_next[byte]) << 1) | (state & config.comm_loop);
	}
	return state & config.comm_accept;
}

static __always_inline bool wanted(struct ids ids)
{
	bool ours = false;

	if (config.filters & TRACER_FILTER_CPUS) {
		__u32 cpu = bpf_get_smp_processor_id();

		if (!(config.cpus[(cpu >> 6) & 63] >> (cpu & 63) & 1))
			return false;
	}
	if (config.filters & TRACER_FILTER_TARGETS) {
		__u32 *how = bpf_map_lookup_elem(&targets, &ids.tgid);

		if (how && *how & TRACER_TARGET_PROCESS) {
			ours = *how & TRACER_TARGET_OURS;
		} else {
			how = bpf_map_lookup_elem(&targets, &ids.pid);
			if (!how || !(*how & TRACER_TARGET_THREAD))
				return false;
		}
	}
	if (!ours) {
#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < TRACER_EXCLUDED; i++) {
			if (i >= config.excluded_len)
				break;
			if (config.excluded[i] == ids.tgid)
				return false;
		}
	}
	if (config.filters & TRACER_FILTER_UID && (__u32)bpf_get_current_uid_gid() != config.uid)
		return false;
	if (config.filters & TRACER_FILTER_CGROUP &&
	    bpf_current_task_under_cgroup(&cgroups, 0) != 1)
		return false;
	if (config.filters & TRACER_FILTER_COMM && !comm_matches())
		return false;
	return true;
}

/*
 * The level of that number. Which one it is is hidden from the verifier: it would walk the rest of
 * a program once for each.
 */
static __always_inline struct tracer_level *level_at(struct tracer_cpu *cpu, __u32 i)
{
	struct tracer_level *level;

	i = (i + *(volatile __u32 *)&cpu->nothing) & (TRACER_LEVELS - 1);
	level = &cpu->level[i];
	level->event.level = i;
	return level;
}

/*
 * Claims a scratch level of this CPU, or none. Interrupts and NMIs nest over a program, and on
 * preemptible kernels uprobe, fentry and tp_btf programs are preempted by others on their CPU, as
 * they run with migration disabled only: one slot per CPU would be written by two at once.
 */
static __noinline struct tracer_level *claim(struct tracer_cpu *cpu)
{
#ifdef TRACER_STRICT_NESTING
	__u32 depth = cpu->depth;

	if (depth >= TRACER_LEVELS)
		return 0;
	cpu->depth = depth + 1;
	return level_at(cpu, depth);
#else
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < TRACER_LEVELS; i++) {
		if (!__sync_lock_test_and_set(&cpu->level[i].busy, 1))
			return level_at(cpu, i);
	}
	return 0;
#endif
}

static __always_inline void release(struct tracer_level *level)
{
#ifdef TRACER_STRICT_NESTING
	__u32 key = bpf_get_smp_processor_id();
	struct tracer_cpu *cpu = bpf_map_lookup_elem(&cpus, &key);

	if (cpu)
		cpu->depth = level->event.level;
#else
	*(volatile __u32 *)&level->busy = 0;
#endif
}

/* Stores what fields start from: whole, as the verifier forbids to take a pointer apart. */
static __always_inline void set_base(struct tracer_level *level, __u32 i, __u64 value)
{
	*(volatile __u64 *)&level->bases[i & (TRACER_BASES - 1)] = value;
}

/* Fills in the rest of the head: of the task, by helpers. */
static __noinline int fill_task(struct tracer_level *level)
{
	struct tracer_event *event = &level->event;

	event->uid = bpf_get_current_uid_gid();
	event->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	return 0;
}

#include "fetch.h"
#include "tally.h"
#include "gather.h"

/*
 * Claims a level for a run; none is free, none is claimed.
 *
 * Nothing of an event is ever kept on the stack of a program. Kernels from 6.13 on give programs
 * that need 64 bytes and more a stack for each CPU in place of the task's (check_max_stack_depth,
 * kernel/bpf/verifier.c), and let uprobe programs of two tasks, one preempted by the other, run on
 * the same one.
 */
static __always_inline struct tracer_level *claim_level(struct tracer_accounts *mine)
{
	__u32 key = bpf_get_smp_processor_id();
	struct tracer_cpu *cpu = bpf_map_lookup_elem(&cpus, &key);
	struct tracer_level *level = cpu ? claim(cpu) : 0;

	if (!level)
		count(mine->scratch);
	return level;
}

/* Fills in what of an event's head is at hand. */
static __always_inline void fill_head(struct tracer_level *level, struct ids ids)
{
	struct tracer_event *event = &level->event;

	event->common_type = config.common_type;
	event->common_flags = 0;
	event->common_preempt_count = 0;
	event->common_pid = ids.pid;
	event->probe = ids.probe;
	event->zero = 0;
	event->tgid = ids.tgid;
	event->pid = ids.pid;
}

/* Begins a run: counts it, and claims a level where its task is wanted and one is free. */
static __always_inline struct tracer_level *start_half(void *ctx, struct tracer_accounts **mine,
						       struct ids *ids)
{
	__u32 probe = my_probe(ctx);

	*mine = my_accounts(probe);
	if (!*mine)
		return 0; /* cannot be: the array covers every possible CPU */
	count((*mine)->fired);
	*ids = my_ids(probe);
	if (!wanted(*ids)) {
		count((*mine)->filtered);
		return 0;
	}
	return claim_level(*mine);
}

/* The same, with the head of an event. */
static __always_inline struct tracer_level *start(void *ctx, struct tracer_accounts **mine)
{
	struct ids ids;
	struct tracer_level *level = start_half(ctx, mine, &ids);

	if (level)
		fill_head(level, ids);
	return level;
}

/* Captures the fields, judges the predicate, emits or adds to a tally, and gives the level back. */
static __always_inline int close_event(void *ctx, struct tracer_accounts *mine,
				       struct tracer_level *level)
{
	__u64 size;
	long err;

	level->dynamic = 0;
	level->faults = 0;
	if (config.builtins & 1 << TRACER_BASE_TIME)
		set_base(level, TRACER_BASE_TIME, bpf_ktime_get_ns());
	if (config.builtins & 1 << TRACER_BASE_CPU)
		set_base(level, TRACER_BASE_CPU, bpf_get_smp_processor_id());
	if (config.builtins & 1 << TRACER_BASE_GID)
		set_base(level, TRACER_BASE_GID, bpf_get_current_uid_gid() >> 32);
	if (config.builtins & 1 << TRACER_BASE_FUNC) {
		if (config.func == TRACER_FUNC_HELPER)
			set_base(level, TRACER_BASE_FUNC, bpf_get_func_ip(ctx));
		else if (config.func == TRACER_FUNC_UPROBE)
			set_base(level, TRACER_BASE_FUNC, PT_REGS_IP((struct pt_regs *)ctx));
		else
			set_base(level, TRACER_BASE_FUNC, function_address(ctx));
	}
	if (config.nops) {
#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < TRACER_FIELDS; i++) {
			if (i >= config.njudged)
				break;
			fetch(ctx, level, i);
		}
		if (!judged(level)) {
			release(level);
			count(mine->filtered);
			return 0;
		}
	}
	if (!config.judges_task)
		fill_task(level);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TRACER_FIELDS; i++) {
		if (i >= config.nfetch)
			break;
		if (i >= config.njudged)
			fetch(ctx, level, i);
	}
	if (config.tally)
		return keep_tally(ctx, mine, level);
	if (config.faults_at)
		set_slot(&level->event, config.faults_at, level->faults);
	level->event.seq = ++level->seq;
	size = level->dynamic & (2 * TRACER_DYNAMIC - 1);
	if (size > TRACER_DYNAMIC + TRACER_TEXT)
		size = TRACER_DYNAMIC + TRACER_TEXT; /* cannot be: the loader keeps the sum below */
	if (config.gather > 1)
		return gather(ctx, mine, level, config.dynamic + size);
	err = bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &level->event,
				    config.dynamic + size);
	release(level);
	account_output(mine, err);
	return 0;
}

#endif
