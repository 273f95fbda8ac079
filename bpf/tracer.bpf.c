// SPDX-License-Identifier: GPL-2.0
/*
 * The probes: thin entry programs for every way to hook the kernel, and one function that filters, builds
 * and emits an event.
 *
 * The loader opens this object once per probe, sets `config` and loads the one entry program it needs; maps
 * are shared. It is built twice: TRACER_STRICT_NESTING is for kernels (5.10, 5.11) that refuse atomics
 * which return the old value wherever they stand, and on which programs of one CPU nest strictly.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "tracer.h"

char LICENSE[] SEC("license") = "GPL";

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

/* Programs that interrupt each other on a CPU share its accounts, so they are added to atomically; the
 * result is not used, so that 5.10 takes it. */
#define count(account) ((void)__sync_fetch_and_add(&(account), 1))

/* A word of a tracing program's context: the offset must be in the instruction. */
#define ctx_word(ctx, i)                                                                           \
	({                                                                                         \
		__u64 word_;                                                                       \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(word_) : "r"(ctx), "i"((i) * 8));     \
		word_;                                                                             \
	})

static __always_inline struct tracer_accounts *my_accounts(void)
{
	__u32 key = bpf_get_smp_processor_id() * config.probes + config.probe;

	return bpf_map_lookup_elem(&accounts, &key);
}

struct ids {
	__u32 tgid;
	__u32 pid;
};

/* The current task's ids in the tracer's PID namespace; 0 for tasks outside it. */
static __always_inline struct ids my_ids(void)
{
	struct ids ids = {};

	if (config.pidns_ino) {
		struct bpf_pidns_info ns = {};

		if (!bpf_get_ns_current_pid_tgid(config.pidns_dev, config.pidns_ino, &ns, sizeof(ns))) {
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

static __always_inline bool comm_matches(void)
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
	if (config.filters & TRACER_FILTER_CGROUP && bpf_current_task_under_cgroup(&cgroups, 0) != 1)
		return false;
	if (config.filters & TRACER_FILTER_COMM && !comm_matches())
		return false;
	return true;
}

/*
 * Claims a scratch level of this CPU, or none. Interrupts and NMIs nest over a program, and on preemptible
 * kernels uprobe, fentry and tp_btf programs are preempted by others on their CPU, as they run with
 * migration disabled only: one slot per CPU would be written by two at once.
 */
static __always_inline struct tracer_level *claim(struct tracer_cpu *cpu, __u32 *index)
{
#ifdef TRACER_STRICT_NESTING
	__u32 depth = cpu->depth;

	if (depth >= TRACER_LEVELS)
		return 0;
	cpu->depth = depth + 1;
	*index = depth;
	return &cpu->level[depth];
#else
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < TRACER_LEVELS; i++) {
		if (!__sync_lock_test_and_set(&cpu->level[i].busy, 1)) {
			*index = i;
			return &cpu->level[i];
		}
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

static __always_inline void account_output(struct tracer_accounts *mine, long err)
{
	if (!err)
		count(mine->emitted);
	else if (err == -28)
		count(mine->enospc);
	else if (err == -2)
		count(mine->enoent);
	else if (err == -7)
		count(mine->e2big);
	else if (err == -95)
		count(mine->eopnotsupp);
	else if (err == -16)
		count(mine->ebusy);
	else
		count(mine->other);
}

/* A run has begun: counts it, and says whether its task is wanted. */
static __always_inline struct tracer_accounts *begin(struct ids *ids)
{
	struct tracer_accounts *mine = my_accounts();

	if (!mine)
		return 0; /* cannot be: the array covers every possible CPU */
	count(mine->fired);
	*ids = my_ids();
	if (!wanted(*ids)) {
		count(mine->filtered);
		return 0;
	}
	return mine;
}

/*
 * Stores an argument whole, as it lies at a multiple of eight in its level: the verifier forbids to take a
 * pointer apart, and byte by byte it is slow.
 */
static __always_inline void set_arg(struct tracer_event *event, __u32 i, __u64 value)
{
	*(volatile __u64 *)((void *)event + TRACER_EVENT_HEAD + 8 * i) = value;
}

/*
 * Claims a level for an event and fills in all but its arguments, which the caller stores with set_arg before
 * close_event; none is free, none is claimed.
 *
 * Nothing of an event is ever kept on the stack of a program. Kernels from 6.13 on give programs that need 64
 * bytes and more a stack for each CPU in place of the task's (check_max_stack_depth, kernel/bpf/verifier.c), and
 * let uprobe programs of two tasks, one preempted by the other, run on the same one.
 */
static __always_inline struct tracer_level *open_event(struct tracer_accounts *mine, struct ids ids)
{
	__u32 key = bpf_get_smp_processor_id(), index = 0;
	struct tracer_level *level;
	struct tracer_event *event;
	struct tracer_cpu *cpu;

	cpu = bpf_map_lookup_elem(&cpus, &key);
	level = cpu ? claim(cpu, &index) : 0;
	if (!level) {
		count(mine->scratch);
		return 0;
	}
	event = &level->event;
	event->common_type = config.common_type;
	event->common_flags = 0;
	event->common_preempt_count = 0;
	event->common_pid = ids.pid;
	event->probe = config.probe;
	event->level = index;
	event->zero = 0;
	event->seq = ++level->seq;
	event->tgid = ids.tgid;
	event->pid = ids.pid;
	event->uid = bpf_get_current_uid_gid();
	event->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	return level;
}

/* Emits an event and gives its level back. */
static __always_inline int close_event(void *ctx, struct tracer_accounts *mine, struct tracer_level *level)
{
	__u32 size = TRACER_EVENT_HEAD + 8 * (config.nargs + config.ret);
	long err = bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &level->event, size);

	release(level);
	account_output(mine, err);
	return 0;
}

#define for_each_arg(i) _Pragma("clang loop unroll(full)") for (__u32 i = 0; i < 6; i++)

static __always_inline void set_regs(struct tracer_event *event, struct pt_regs *regs)
{
	if (config.nargs > 0)
		set_arg(event, 0, PT_REGS_PARM1(regs));
	if (config.nargs > 1)
		set_arg(event, 1, PT_REGS_PARM2(regs));
	if (config.nargs > 2)
		set_arg(event, 2, PT_REGS_PARM3(regs));
	if (config.nargs > 3)
		set_arg(event, 3, PT_REGS_PARM4(regs));
	if (config.nargs > 4)
		set_arg(event, 4, PT_REGS_PARM5(regs));
	if (config.nargs > 5)
		set_arg(event, 5, PT_REGS_PARM6(regs));
}

/* kprobe and uprobe */
SEC("kprobe")
int probe_entry(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level;
	struct ids ids;

	mine = begin(&ids);
	level = mine ? open_event(mine, ids) : 0;
	if (!level)
		return 0;
	set_regs(&level->event, ctx);
	return close_event(ctx, mine, level);
}

/* kretprobe and uretprobe: the return value alone */
SEC("kretprobe")
int probe_return(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level;
	struct ids ids;

	mine = begin(&ids);
	level = mine ? open_event(mine, ids) : 0;
	if (!level)
		return 0;
	set_arg(&level->event, 0, PT_REGS_RC(ctx));
	return close_event(ctx, mine, level);
}

/*
 * An argument of a trampoline's program. Pointers to what is no structure may not be read directly in older
 * kernels (btf_ctx_access, kernel/bpf/btf.c): there a helper copies every word.
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
	struct tracer_level *level;
	struct ids ids;

	mine = begin(&ids);
	level = mine ? open_event(mine, ids) : 0;
	if (!level)
		return 0;
	for_each_arg(i) if (i < config.nargs) set_arg(&level->event, i, trampoline_word(ctx, i));
	return close_event(ctx, mine, level);
}

/* The return value first where there is one, then the arguments as they were at entry. */
SEC("fexit")
int probe_fexit(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level;
	struct ids ids;

	mine = begin(&ids);
	level = mine ? open_event(mine, ids) : 0;
	if (!level)
		return 0;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i <= 12; i++)
		if (config.ret && config.func_args == i)
			set_arg(&level->event, 0, trampoline_word(ctx, i));
	for_each_arg(i) if (i < config.nargs)
	{
		if (config.ret)
			set_arg(&level->event, i + 1, trampoline_word(ctx, i));
		else
			set_arg(&level->event, i, trampoline_word(ctx, i));
	}
	return close_event(ctx, mine, level);
}

/* A tracepoint's record: integers where the format says they lie. */
SEC("tracepoint")
int probe_tracepoint(void *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level;
	struct ids ids;

	mine = begin(&ids);
	level = mine ? open_event(mine, ids) : 0;
	if (!level)
		return 0;
	for_each_arg(i) if (i < config.nargs)
	{
		set_arg(&level->event, i, 0);
		bpf_probe_read_kernel((void *)&level->event + TRACER_EVENT_HEAD + 8 * i,
				      config.field_size[i] & 15, ctx + config.field_offset[i]);
	}
	return close_event(ctx, mine, level);
}

/* A raw tracepoint; also what BPF_PROG_TEST_RUN drives. */
SEC("raw_tp")
int probe_raw_tp(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level;
	struct ids ids;

	mine = begin(&ids);
	level = mine ? open_event(mine, ids) : 0;
	if (!level)
		return 0;
	for_each_arg(i) if (i < config.nargs) set_arg(&level->event, i, ctx_word(ctx, i));
	return close_event(ctx, mine, level);
}

/* System calls. The wrapper's one parameter points at the caller's registers. */

static __always_inline void syscall_args_read(struct tracer_event *event, struct pt_regs *regs)
{
	if (config.nargs > 0)
		set_arg(event, 0, PT_REGS_PARM1_CORE_SYSCALL(regs));
	if (config.nargs > 1)
		set_arg(event, 1, PT_REGS_PARM2_CORE_SYSCALL(regs));
	if (config.nargs > 2)
		set_arg(event, 2, PT_REGS_PARM3_CORE_SYSCALL(regs));
	if (config.nargs > 3)
		set_arg(event, 3, PT_REGS_PARM4_CORE_SYSCALL(regs));
	if (config.nargs > 4)
		set_arg(event, 4, PT_REGS_PARM5_CORE_SYSCALL(regs));
	if (config.nargs > 5)
		set_arg(event, 5, PT_REGS_PARM6_CORE_SYSCALL(regs));
}

/* The same where the verifier knows that `regs` points at registers: no helper is called. */
static __always_inline void syscall_args_direct(struct tracer_event *event, struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	if (config.nargs > 0)
		set_arg(event, 0, regs->di);
	if (config.nargs > 1)
		set_arg(event, 1, regs->si);
	if (config.nargs > 2)
		set_arg(event, 2, regs->dx);
	if (config.nargs > 3)
		set_arg(event, 3, regs->r10);
	if (config.nargs > 4)
		set_arg(event, 4, regs->r8);
	if (config.nargs > 5)
		set_arg(event, 5, regs->r9);
#else
	if (config.nargs > 0)
		set_arg(event, 0, regs->orig_x0);
	for_each_arg(i) if (i > 0 && i < config.nargs) set_arg(event, i, regs->regs[i]);
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
	struct tracer_level *level;
	struct ids ids;

	mine = begin(&ids);
	level = mine ? open_event(mine, ids) : 0;
	if (!level)
		return 0;
	syscall_args_direct(&level->event, (struct pt_regs *)ctx[0]);
	return close_event(ctx, mine, level);
}

SEC("kprobe")
int syscall_kprobe(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level;
	struct ids ids;

	mine = begin(&ids);
	level = mine ? open_event(mine, ids) : 0;
	if (!level)
		return 0;
	syscall_args_read(&level->event, (struct pt_regs *)PT_REGS_PARM1(ctx));
	return close_event(ctx, mine, level);
}

/* The number is looked at before the task: every system call of the machine comes by. */
#define SYS_ENTER(NAME, SECTION, READ)								\
	SEC(SECTION)										\
	int NAME(__u64 *ctx)									\
	{											\
		struct tracer_accounts *mine = my_accounts();					\
		struct tracer_level *level;							\
		struct ids ids;									\
												\
		if (!mine)									\
			return 0;								\
		count(mine->fired);								\
		if (!this_syscall(mine, ctx[1])) {						\
			count(mine->filtered);							\
			return 0;								\
		}										\
		ids = my_ids();									\
		if (!wanted(ids)) {								\
			count(mine->filtered);							\
			return 0;								\
		}										\
		level = open_event(mine, ids);							\
		if (!level)									\
			return 0;								\
		READ(&level->event, (struct pt_regs *)ctx[0]);					\
		return close_event(ctx, mine, level);						\
	}

SYS_ENTER(syscall_tp_btf, "tp_btf/sys_enter", syscall_args_direct)
SYS_ENTER(syscall_raw_tp, "raw_tp/sys_enter", syscall_args_read)

/* Programs of the tracer's own. Their accounts are those of config.probe, as for any other. */

/* Writes a record of four bytes: it flushes a pending loss and proves that slot and ring are still ours. */
SEC("raw_tp")
int end_marker(void *ctx)
{
	struct tracer_accounts *mine = my_accounts();
	__u32 word = 0;

	if (!mine)
		return 0;
	count(mine->fired);
	account_output(mine, bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &word, sizeof(word)));
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

/* A process is followed by its id in our PID namespace, which the child has at the parent's level. */
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
