// SPDX-License-Identifier: GPL-2.0
/*
 * The probes: thin entry programs for every way to hook the kernel, and one function that filters,
 * builds and emits an event.
 *
 * The loader opens this object once per probe, sets `config` and loads the one entry program it
 * needs, or two where a return is paired with its entry; maps are shared. It is built twice:
 * TRACER_STRICT_NESTING is for kernels (5.10, 5.11) that refuse atomics which return the old value
 * wherever they stand, and on which programs of one CPU nest strictly.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "tracer.h"
#include "account.h"
#include "emit.h"
#include "regs.h"
#include "pair.h"
#include "syscall.h"
#include "own.h"

char LICENSE[] SEC("license") = "GPL";

/* kprobe and uprobe */
SEC("kprobe")
int probe_entry(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level)
		return 0;
	set_args(level, PT_REGS_PARM, , ctx);
	return close_event(ctx, mine, level);
}

/* The entry half of a kretprobe or uretprobe. */
SEC("kprobe")
int half_entry(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct ids ids;
	struct tracer_level *level = start_half(ctx, &mine, &ids);

	if (!level)
		return 0;
	set_args(level, PT_REGS_PARM, , ctx);
	return keep_half(mine, level, PT_REGS_SP(ctx));
}

/* kretprobe and uretprobe: the return value, and what the entry kept */
SEC("kretprobe")
int probe_return(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level || !take_half(mine, level, PT_REGS_SP(ctx) - config.sp_delta))
		return 0;
	set_base(level, TRACER_BASE_RET, PT_REGS_RC(ctx));
	return close_event(ctx, mine, level);
}

SEC("fentry")
int probe_fentry(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level)
		return 0;
	for_each_arg(i) if (i < config.nargs) set_base(level, i, trampoline_word(ctx, i));
	return close_event(ctx, mine, level);
}

/*
 * The entry half of an fexit, for its time: the trampoline has one context for a call, at its entry
 * and at its return, and that is the place by which they know each other.
 */
SEC("fentry")
int half_fentry(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct ids ids;
	struct tracer_level *level = start_half(ctx, &mine, &ids);

	return level ? keep_half(mine, level, (__u64)ctx) : 0;
}

/* The return value, and the arguments as they were at entry. */
SEC("fexit")
int probe_fexit(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level || !take_half(mine, level, (__u64)ctx))
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
	struct tracer_level *level = start(ctx, &mine);

	if (!level)
		return 0;
	set_base(level, TRACER_BASE_RECORD, (__u64)ctx);
	return close_event(ctx, mine, level);
}

/* A raw tracepoint; also what BPF_PROG_TEST_RUN drives. */
SEC("raw_tp")
int probe_raw_tp(__u64 *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level)
		return 0;
	for_each_arg(i) if (i < config.nargs) set_base(level, i, ctx_word(ctx, i));
	return close_event(ctx, mine, level);
}
