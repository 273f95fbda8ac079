/* SPDX-License-Identifier: GPL-2.0 */
/* Programs of the tracer's own. Their accounts are those of config.probe, as for any other. */
#ifndef TRACER_OWN_H
#define TRACER_OWN_H

/* Writes a record of four bytes: it flushes a pending loss and proves that slot and ring are still
 * ours. */
SEC("raw_tp")
int end_marker(void *ctx)
{
	struct tracer_accounts *mine = my_accounts(config.probe);
	__u32 word = 0;

	if (!mine)
		return 0;
	count(mine->fired);
	account_output(mine,
		       bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &word, sizeof(word)));
	return 0;
}

/* By test-run: outputs what this CPU's levels hold, but for those that a program has at this
 * moment. */
SEC("raw_tp")
int put_out_all(void *ctx)
{
	struct tracer_accounts *mine = my_accounts(config.probe);
	__u32 key = bpf_get_smp_processor_id();
	struct tracer_cpu *cpu = bpf_map_lookup_elem(&cpus, &key);

	if (!mine || !cpu)
		return 0;
	count(mine->fired);
	count(mine->stored);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TRACER_LEVELS; i++) {
		struct tracer_gather *g = gather_of(i);
#ifdef TRACER_STRICT_NESTING
		__u32 depth = cpu->depth;

		/* Whoever interrupts this takes the level above. */
		if (!g || i < depth)
			continue;
		cpu->depth = i + 1;
		put_out(ctx, g);
		cpu->depth = depth;
#else
		if (!g || __sync_lock_test_and_set(&cpu->level[i & (TRACER_LEVELS - 1)].busy, 1))
			continue;
		put_out(ctx, g);
		*(volatile __u32 *)&cpu->level[i & (TRACER_LEVELS - 1)].busy = 0;
#endif
	}
	return 0;
}

/* Loads only where atomics may return the old value; which object is used turns on it. */
SEC("raw_tp")
int feature_fetch(void *ctx)
{
#ifndef TRACER_STRICT_NESTING
	__u32 key = bpf_get_smp_processor_id();
	struct tracer_cpu *cpu = bpf_map_lookup_elem(&cpus, &key);

	if (cpu && __sync_lock_test_and_set(&cpu->depth, 0))
		return 1;
#endif
	return 0;
}

/* A process is followed by its id in our PID namespace, which the child has at the parent's level.
 */
static __always_inline __u32 child_id(struct task_struct *child)
{
	struct task_struct *parent = (void *)bpf_get_current_task();
	struct pid *pid;
	__u32 level;
	int nr = 0;

	if (!config.pidns_ino)
		return child->tgid;
	level = BPF_CORE_READ(parent, thread_pid, level);
	pid = BPF_CORE_READ(child, thread_pid);
	bpf_core_read(&nr, sizeof(nr),
		      (void *)&pid->numbers[0].nr + level * bpf_core_type_size(struct upid));
	return nr;
}

/*
 * The programs that follow processes read tasks directly, with no helper: those are refused under
 * lockdown=confidentiality.
 */
SEC("tp_btf/sched_process_fork")
int follow_fork(__u64 *ctx)
{
	struct task_struct *child = (void *)ctx[1];
	struct tracer_accounts *mine = my_accounts(config.probe);
	struct ids ids = my_ids(config.probe);
	__u32 *how, key;

	if (!mine)
		return 0;
	count(mine->fired);
	how = bpf_map_lookup_elem(&targets, &ids.tgid);
	if (!how || !(*how & TRACER_TARGET_PROCESS) || child->pid != child->tgid) {
		count(mine->filtered);
		return 0;
	}
	key = child_id(child);
	if (bpf_map_update_elem(&targets, &key, how, BPF_ANY))
		count(mine->nomem);
	else
		count(mine->stored);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int follow_exec(__u64 *ctx)
{
	struct tracer_accounts *mine = my_accounts(config.probe);
	struct ids ids = my_ids(config.probe);
	__u32 *how;

	if (!mine)
		return 0;
	count(mine->fired);
	how = bpf_map_lookup_elem(&targets, &ids.tgid);
	if (how && *how & TRACER_TARGET_ARMED) {
		*how = TRACER_TARGET_PROCESS | TRACER_TARGET_OURS;
		count(mine->stored);
	} else {
		count(mine->filtered);
	}
	return 0;
}

/* An id may be used again: a process is forgotten when its last thread has gone, a thread when it
 * goes. */
SEC("tp_btf/sched_process_exit")
int follow_exit(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct tracer_accounts *mine = my_accounts(config.probe);
	struct ids ids = my_ids(config.probe);
	__u32 *how, forgotten;

	if (!mine)
		return 0;
	count(mine->fired);
	forgotten = !task->signal->live.counter && !bpf_map_delete_elem(&targets, &ids.tgid);
	how = bpf_map_lookup_elem(&targets, &ids.pid);
	if (how && *how & TRACER_TARGET_THREAD && !bpf_map_delete_elem(&targets, &ids.pid))
		forgotten = 1;
	if (forgotten)
		count(mine->stored);
	else
		count(mine->filtered);
	return 0;
}

#endif
