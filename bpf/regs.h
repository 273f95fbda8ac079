/* SPDX-License-Identifier: GPL-2.0 */
/* Arguments out of registers: of functions, of trampolines, and of system calls. */
#ifndef TRACER_REGS_H
#define TRACER_REGS_H

/* A word of a tracing program's context: the offset must be in the instruction. */
#define ctx_word(ctx, i)                                                                           \
	({                                                                                         \
		__u64 word_;                                                                       \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(word_) : "r"(ctx), "i"((i)*8));       \
		word_;                                                                             \
	})

#define for_each_arg(i) _Pragma("clang loop unroll(full)") for (__u32 i = 0; i < TRACER_ARGS; i++)

/* Every argument that is looked at, by the macros PREFIX1 to PREFIX6 of libbpf's bpf_tracing.h. */
#define set_args(level, PREFIX, SUFFIX, regs)                                                      \
	do {                                                                                       \
		if (config.nargs > 0)                                                              \
			set_base(level, 0, PREFIX##1##SUFFIX(regs));                               \
		if (config.nargs > 1)                                                              \
			set_base(level, 1, PREFIX##2##SUFFIX(regs));                               \
		if (config.nargs > 2)                                                              \
			set_base(level, 2, PREFIX##3##SUFFIX(regs));                               \
		if (config.nargs > 3)                                                              \
			set_base(level, 3, PREFIX##4##SUFFIX(regs));                               \
		if (config.nargs > 4)                                                              \
			set_base(level, 4, PREFIX##5##SUFFIX(regs));                               \
		if (config.nargs > 5)                                                              \
			set_base(level, 5, PREFIX##6##SUFFIX(regs));                               \
	} while (0)

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

/* Arguments of a system call where the verifier knows that `regs` points at the caller's registers:
 * no helper is called. */
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

/* The same by a helper. */
static __always_inline void syscall_args_read(struct tracer_level *level, struct pt_regs *regs)
{
	set_args(level, PT_REGS_PARM, _CORE_SYSCALL, regs);
}

/* The number of the system call that returns. */
static __always_inline long syscall_number_direct(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#else
	return regs->syscallno;
#endif
}

static __always_inline long syscall_number_read(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return BPF_CORE_READ(regs, orig_ax);
#else
	return BPF_CORE_READ(regs, syscallno);
#endif
}

#endif
