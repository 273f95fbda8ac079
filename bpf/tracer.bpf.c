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

static __always_inline void regs_args(struct pt_regs *ctx, __u64 *args)
{
	args[0] = PT_REGS_PARM1(ctx);
	args[1] = PT_REGS_PARM2(ctx);
	args[2] = PT_REGS_PARM3(ctx);
	args[3] = PT_REGS_PARM4(ctx);
	args[4] = PT_REGS_PARM5(ctx);
	args[5] = PT_REGS_PARM6(ctx);
}

/* kprobe and uprobe */
SEC("kprobe")
int probe_entry(struct pt_regs *ctx)
{
	__u64 args[8] = {};
	struct ids ids;
	struct tracer_accounts *mine = begin(&ids);

	if (!mine)
		return 0;
	regs_args(ctx, args);
	return emit(ctx, mine, ids, args);
}

/* kretprobe and uretprobe: the return value alone */
SEC("kretprobe")
int probe_return(struct pt_regs *ctx)
{
	__u64 args[8] = {};
	struct ids ids;
	struct tracer_accounts *mine = begin(&ids);

	if (!mine)
		return 0;
	args[0] = PT_REGS_RC(ctx);
	return emit(ctx, mine, ids, args);
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
	__u64 args[8] = {};
	struct ids ids;
	struct tracer_accounts *mine = begin(&ids);

	if (!mine)
		return 0;
	for_each_arg(i) if (i < config.nargs) args[i] = trampoline_word(ctx, i);
	return emit(ctx, mine, ids, args);
}

/* The return value first where there is one, then the arguments as they were at entry. */
SEC("fexit")
int probe_fexit(__u64 *ctx)
{
	__u64 args[8] = {};
	struct ids ids;
	struct tracer_accounts *mine = begin(&ids);

	if (!mine)
		return 0;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i <= 12; i++)
		if (config.ret && config.func_args == i)
			args[0] = trampoline_word(ctx, i);
	for_each_arg(i) if (i < config.nargs) args[(i + config.ret) & 7] = trampoline_word(ctx, i);
	return emit(ctx, mine, ids, args);
}

/* A tracepoint's record: integers where the format says they lie. */
SEC("tracepoint")
int probe_tracepoint(void *ctx)
{
	__u64 args[8] = {};
	struct ids ids;
	struct tracer_accounts *mine = begin(&ids);

	if (!mine)
		return 0;
	for_each_arg(i) if (i < config.nargs) bpf_probe_read_kernel(
		&args[i], config.field_size[i] & 15, ctx + config.field_offset[i]);
	return emit(ctx, mine, ids, args);
}

/* A raw tracepoint; also what BPF_PROG_TEST_RUN drives. */
SEC("raw_tp")
int probe_raw_tp(__u64 *ctx)
{
	__u64 args[8] = {};
	struct ids ids;
	struct tracer_accounts *mine = begin(&ids);

	if (!mine)
		return 0;
	for_each_arg(i) if (i < config.nargs) args[i] = ctx_word(ctx, i);
	return emit(ctx, mine, ids, args);
}

/* System calls. The wrapper's one parameter points at the caller's registers. */

static __always_inline void syscall_args_read(struct pt_regs *regs, __u64 *args)
{
	if (config.nargs > 0)
		args[0] = PT_REGS_PARM1_CORE_SYSCALL(regs);
	if (config.nargs > 1)
		args[1] = PT_REGS_PARM2_CORE_SYSCALL(regs);
	if (config.nargs > 2)
		args[2] = PT_REGS_PARM3_CORE_SYSCALL(regs);
	if (config.nargs > 3)
		args[3] = PT_REGS_PARM4_CORE_SYSCALL(regs);
	if (config.nargs > 4)
		args[4] = PT_REGS_PARM5_CORE_SYSCALL(regs);
	if (config.nargs > 5)
		args[5] = PT_REGS_PARM6_CORE_SYSCALL(regs);
}

/* The same where the verifier knows that `regs` points at registers: no helper is called. */
static __always_inline void syscall_args_direct(struct pt_regs *regs, __u64 *args)
{
#if defined(__TARGET_ARCH_x86)
	if (config.nargs > 0)
		args[0] = regs->di;
	if (config.nargs > 1)
		args[1] = regs->si;
	if (config.nargs > 2)
		args[2] = regs->dx;
	if (config.nargs > 3)
		args[3] = regs->r10;
	if (config.nargs > 4)
		args[4] = regs->r8;
	if (config.nargs > 5)
		args[5] = regs->r9;
#else
	if (config.nargs > 0)
		args[0] = regs->orig_x0;
	for_each_arg(i) if (i > 0 && i < config.nargs) args[i] = regs->regs[i];
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
	__u64 args[8] = {};
	struct ids ids;
	struct tracer_accounts *mine = begin(&ids);

	if (!mine)
		return 0;
	syscall_args_direct((struct pt_regs *)ctx[0], args);
	return emit(ctx, mine, ids, args);
}

SEC("kprobe")
int syscall_kprobe(struct pt_regs *ctx)
{
	__u64 args[8] = {};
	struct ids ids;
	struct tracer_accounts *mine = begin(&ids);

	if (!mine)
		return 0;
	syscall_args_read((struct pt_regs *)PT_REGS_PARM1(ctx), args);
	return emit(ctx, mine, ids, args);
}

/* The number is looked at before the task: every system call of the machine comes by. */
#define SYS_ENTER(NAME, SECTION, READ)                                                             \
	SEC(SECTION)                                                                               \
	int NAME(__u64 *ctx)                                                                       \
	{                                                                                          \
		__u64 args[8] = {};                                                                \
		struct tracer_accounts *mine = my_accounts();                                      \
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
		READ((struct pt_regs *)ctx[0], args);                                              \
		return emit(ctx, mine, ids, args);                                                 \
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
	if (!how || !(*how & TRACER_TARGET_PROCESS) ||
	    child->pid != child->tgid) {
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
