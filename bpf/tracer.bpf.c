// SPDX-License-Identifier: GPL-2.0
/*
 * The probes: thin entry programs for every way to hook the kernel, and one function that filters,
 * builds and emits an event.
 *
 * The loader opens this object once per probe, sets `config` and loads the one entry program it
 * needs; maps are shared. It is built twice: TRACER_STRICT_NESTING is for kernels (5.10, 5.11) that
 * refuse atomics which return the old value wherever they stand, and on which programs of one CPU
 * nest strictly.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "tracer.h"
#include "account.h"
#include "emit.h"

char LICENSE[] SEC("license") = "GPL";

/* A word of a tracing program's context: the offset must be in the instruction. */
#define ctx_word(ctx, i)                                                                           \
	({                                                                                         \
		__u64 word_;                                                                       \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(word_) : "r"(ctx), "i"((i)*8));       \
		word_;                                                                             \
	})

#define for_each_arg(i) _Pragma("clang loop unroll(full)") for (__u32 i = 0; i < 6; i++)

static __always_inline void set_regs(struct tracer_level *level, struct pt_regs *regs)
{
	if (config.nargs > 0)
		set_base(level, 0, PT_REGS_PARM1(regs));
	if (config.nargs > 1)
		set_base(level, 1, PT_REGS_PARM2(regs));
	if (config.nargs > 2)
		set_base(level, 2, PT_REGS_PARM3(regs));
	if (config.nargs > 3)
		set_base(level, 3, PT_REGS_PARM4(regs));
	if (config.nargs > 4)
		set_base(level, 4, PT_REGS_PARM5(regs));
	if (config.nargs > 5)
		set_base(level, 5, PT_REGS_PARM6(regs));
}

/* kprobe and uprobe */
SEC("kprobe")
int probe_entry(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(&mine);

	if (!level)
		return 0;
	set_regs(level, ctx);
	return close_event(ctx, mine, level);
}

/* kretprobe and uretprobe: the return value alone */
SEC("kretprobe")
int probe_return(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(&mine);

	if (!level)
		return 0;
	set_base(level, TRACER_BASE_RET, PT_REGS_RC(ctx));
	return close_event(ctx, mine, level);
}

/*
 * An argument of a trampoline's program. Pointers to what is no structure may not be read directly
 * in older kernels (btf_ctx_access, kernel/bpf/btf.c): there a helper copies every word.
 */
#define trampoline_word(ctx, i)                                                                    \
	({                                                                                         \
		__u64 value_ = 0;                                                                  \
		if (config.copied)                                                                 \
			bpf_probe_read_kernel(&value_, sizeof(value_), (ctx) + (i));               \
		else                                                                               \
			value_ = ctx_word(ctx, i);                                                 \
		value_;                                                                            \
	})

SEC("fentry")
int probe_fentry(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(&mine);

	if (!level)
		return 0;
	for_each_arg(i) if (i < config.nargs) set_base(level, i, trampoline_word(ctx, i));
	return close_event(ctx, mine, level);
}

/* The return value, and the arguments as they were at entry. */
SEC("fexit")
int probe_fexit(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(&mine);

	if (!level)
		return 0;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i <= 12; i++)
		if (config.ret && config.func_args == i)
			set_base(level, TRACER_BASE_RET, trampoline_word(ctx, i));
	for_each_arg(i) if (i < config.nargs) set_base(level, i, trampoline_word(ctx, i));
	return close_event(ctx, mine, level);
}

/* A tracepoint's record: its fields are read where the format says they lie. */
SEC("tracepoint")
int probe_tracepoint(void *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(&mine);

	if (!level)
		return 0;
	set_base(level, TRACER_BASE_TASK, (__u64)ctx);
	return close_event(ctx, mine, level);
}

/* A raw tracepoint; also what BPF_PROG_TEST_RUN drives. */
SEC("raw_tp")
int probe_raw_tp(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(&mine);

	if (!level)
		return 0;
	for_each_arg(i) if (i < config.nargs) set_base(level, i, ctx_word(ctx, i));
	return close_event(ctx, mine, level);
}

/* System calls. The wrapper's one parameter points at the caller's registers. */

static __always_inline void syscall_args_read(struct tracer_level *level, struct pt_regs *regs)
{
	if (config.nargs > 0)
		set_base(level, 0, PT_REGS_PARM1_CORE_SYSCALL(regs));
	if (config.nargs > 1)
		set_base(level, 1, PT_REGS_PARM2_CORE_SYSCALL(regs));
	if (config.nargs > 2)
		set_base(level, 2, PT_REGS_PARM3_CORE_SYSCALL(regs));
	if (config.nargs > 3)
		set_base(level, 3, PT_REGS_PARM4_CORE_SYSCALL(regs));
	if (config.nargs > 4)
		set_base(level, 4, PT_REGS_PARM5_CORE_SYSCALL(regs));
	if (config.nargs > 5)
		set_base(level, 5, PT_REGS_PARM6_CORE_SYSCALL(regs));
}

/* The same where the verifier knows that `regs` points at registers: no helper is called. */
static __always_inline void syscall_args_direct(struct tracer_level *level, struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	if (config.nargs > 0)
		set_base(level, 0, regs->di);
	if (config.nargs > 1)
		set_base(level, 1, regs->si);
	if (config.nargs > 2)
		set_base(level, 2, regs->dx);
	if (config.nargs > 3)
		set_base(level, 3, regs->r10);
	if (config.nargs > 4)
		set_base(level, 4, regs->r8);
	if (config.nargs > 5)
		set_base(level, 5, regs->r9);
#else
	if (config.nargs > 0)
		set_base(level, 0, regs->orig_x0);
	for_each_arg(i) if (i > 0 && i < config.nargs) set_base(level, i, regs->regs[i]);
#endif
}

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

SEC("fentry")
int syscall_fentry(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(&mine);

	if (!level)
		return 0;
	syscall_args_direct(level, (struct pt_regs *)ctx[0]);
	return close_event(ctx, mine, level);
}

SEC("kprobe")
int syscall_kprobe(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(&mine);

	if (!level)
		return 0;
	syscall_args_read(level, (struct pt_regs *)PT_REGS_PARM1(ctx));
	return close_event(ctx, mine, level);
}

/* The number is looked at before the task: every system call of the machine comes by. */
#define SYS_ENTER(NAME, SECTION, READ)                                                             \
	SEC(SECTION)                                                                               \
	int NAME(__u64 *ctx)                                                                       \
	{                                                                                          \
		struct tracer_accounts *mine = my_accounts();                                      \
		struct tracer_level *level;                                                        \
		struct ids ids;                                                                    \
                                                                                                   \
		if (!mine)                                                                         \
			return 0;                                                                  \
		count(mine->fired);                                                                \
		if (!this_syscall(mine, ctx[1])) {                                                 \
			count(mine->filtered);                                                     \
			return 0;                                                                  \
		}                                                                                  \
		ids = my_ids();                                                                    \
		if (!wanted(ids)) {                                                                \
			count(mine->filtered);                                                     \
			return 0;                                                                  \
		}                                                                                  \
		level = open_event(mine, ids);                                                     \
		if (!level)                                                                        \
			return 0;                                                                  \
		READ(level, (struct pt_regs *)ctx[0]);                                             \
		return close_event(ctx, mine, level);                                              \
	}

SYS_ENTER(syscall_tp_btf, "tp_btf/sys_enter", syscall_args_direct)
SYS_ENTER(syscall_raw_tp, "raw_tp/sys_enter", syscall_args_read)

/* Programs of the tracer's own. Their accounts are those of config.probe, as for any other. */

/* Writes a record of four bytes: it flushes a pending loss and proves that slot and ring are still
 * ours. */
SEC("raw_tp")
int end_marker(void *ctx)
{
	struct tracer_accounts *mine = my_accounts();
	__u32 word = 0;

	if (!mine)
		return 0;
	count(mine->fired);
	account_output(mine,
		       bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &word, sizeof(word)));
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
	struct tracer_accounts *mine = my_accounts();
	struct ids ids = my_ids();
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
	struct tracer_accounts *mine = my_accounts();
	struct ids ids = my_ids();
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

/* A process id may be used again: it is forgotten when the last thread has gone. */
SEC("tp_btf/sched_process_exit")
int follow_exit(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct tracer_accounts *mine = my_accounts();
	struct ids ids = my_ids();

	if (!mine)
		return 0;
	count(mine->fired);
	if (!task->signal->live.counter && !bpf_map_delete_elem(&targets, &ids.tgid))
		count(mine->stored);
	else
		count(mine->filtered);
	return 0;
}
