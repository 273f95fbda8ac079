/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls, by every hook that sees them. The wrapper's one parameter, and the first word of
 * the hooks on all calls, point at the caller's registers; these still hold the arguments at the
 * return, but where the call itself has set them (execve).
 */
#ifndef TRACER_SYSCALL_H
#define TRACER_SYSCALL_H

/* A hook on every system call: is this one it, of a task whose numbers are ours? */
static __always_inline bool this_syscall(struct tracer_accounts *mine, long id)
{
	struct task_struct *task;
	bool compat;

	if (id != config.syscall)
		return false;
	task = (void *)bpf_get_current_task();
#if defined(__TARGET_ARCH_x86)
	compat = BPF_CORE_READ(task, thread_info.status) & 2; /* TS_COMPAT */
#else
	compat = BPF_CORE_READ(task, thread_info.flags) & (1 << 22); /* TIF_32BIT */
#endif
	if (compat)
		count(mine->compat);
	return !compat;
}

/* Begins a run of a hook on every system call. The number is looked at before the task: every
 * system call of the machine comes by. */
static __always_inline struct tracer_level *start_syscall(long id, struct tracer_accounts **mine,
							  struct ids *ids)
{
	*mine = my_accounts(config.probe);
	if (!*mine)
		return 0;
	count((*mine)->fired);
	if (!this_syscall(*mine, id)) {
		count((*mine)->filtered);
		return 0;
	}
	*ids = my_ids(config.probe);
	if (!wanted(*ids)) {
		count((*mine)->filtered);
		return 0;
	}
	return claim_level(*mine);
}

SEC("fentry")
int syscall_fentry(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level)
		return 0;
	syscall_args_direct(level, (struct pt_regs *)ctx[0]);
	return close_event(ctx, mine, level);
}

SEC("fentry")
int half_syscall_fentry(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct ids ids;
	struct tracer_level *level = start_half(ctx, &mine, &ids);

	if (!level)
		return 0;
	syscall_args_direct(level, (struct pt_regs *)ctx[0]);
	return keep_half(mine, level, (__u64)ctx);
}

SEC("fexit")
int syscall_fexit(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level || !take_half(mine, level, (__u64)ctx))
		return 0;
	if (!config.pair)
		syscall_args_direct(level, (struct pt_regs *)ctx[0]);
	set_base(level, TRACER_BASE_RET, ctx_word(ctx, 1));
	return close_event(ctx, mine, level);
}

SEC("kprobe")
int syscall_kprobe(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level)
		return 0;
	syscall_args_read(level, (struct pt_regs *)PT_REGS_PARM1(ctx));
	return close_event(ctx, mine, level);
}

/* Its return is probe_return. */
SEC("kprobe")
int half_syscall_kprobe(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct ids ids;
	struct tracer_level *level = start_half(ctx, &mine, &ids);

	if (!level)
		return 0;
	syscall_args_read(level, (struct pt_regs *)PT_REGS_PARM1(ctx));
	return keep_half(mine, level, PT_REGS_SP(ctx));
}

/* Hooks on all system calls: a thread is in one call at a time, so its place is nowhere. */
#define ON_ALL_SYSCALLS(NAME, TYPE, HOW)                                                           \
	SEC(TYPE "/sys_enter")                                                                     \
	int syscall_##NAME(__u64 *ctx)                                                             \
	{                                                                                          \
		struct tracer_accounts *mine;                                                      \
		struct ids ids;                                                                    \
		struct tracer_level *level = start_syscall(ctx[1], &mine, &ids);                   \
                                                                                                   \
		if (!level)                                                                        \
			return 0;                                                                  \
		fill_head(level, ids);                                                             \
		syscall_args_##HOW(level, (struct pt_regs *)ctx[0]);                               \
		return close_event(ctx, mine, level);                                              \
	}                                                                                          \
                                                                                                   \
	SEC(TYPE "/sys_enter")                                                                     \
	int half_syscall_##NAME(__u64 *ctx)                                                        \
	{                                                                                          \
		struct tracer_accounts *mine;                                                      \
		struct ids ids;                                                                    \
		struct tracer_level *level = start_syscall(ctx[1], &mine, &ids);                   \
                                                                                                   \
		if (!level)                                                                        \
			return 0;                                                                  \
		syscall_args_##HOW(level, (struct pt_regs *)ctx[0]);                               \
		return keep_half(mine, level, 0);                                                  \
	}                                                                                          \
                                                                                                   \
	SEC(TYPE "/sys_exit")                                                                      \
	int syscall_exit_##NAME(__u64 *ctx)                                                        \
	{                                                                                          \
		struct tracer_accounts *mine;                                                      \
		struct ids ids;                                                                    \
		struct tracer_level *level = start_syscall(                                        \
			syscall_number_##HOW((struct pt_regs *)ctx[0]), &mine, &ids);              \
                                                                                                   \
		if (!level)                                                                        \
			return 0;                                                                  \
		fill_head(level, ids);                                                             \
		if (!take_half(mine, level, 0))                                                    \
			return 0;                                                                  \
		if (!config.pair)                                                                  \
			syscall_args_##HOW(level, (struct pt_regs *)ctx[0]);                       \
		set_base(level, TRACER_BASE_RET, ctx[1]);                                          \
		return close_event(ctx, mine, level);                                              \
	}

ON_ALL_SYSCALLS(tp_btf, "tp_btf", direct)
ON_ALL_SYSCALLS(raw_tp, "raw_tp", read)

#endif
