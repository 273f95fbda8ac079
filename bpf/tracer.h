/* SPDX-License-Identifier: GPL-2.0 */
/* What crosses between the kernel's side and ours: events, accounts, and the configuration of one probe. */
#ifndef TRACER_H
#define TRACER_H

#define TRACER_LEVELS 4	   /* programs that can build an event at once on one CPU */
#define TRACER_ARGS 7	   /* six arguments and a return value */
#define TRACER_EXCLUDED 64 /* processes never traced: ourselves and whoever reads us */
#define TRACER_COMM 16	   /* TASK_COMM_LEN */

/*
 * One event, at the very start of a sample's raw bytes. It opens with the kernel's trace-entry head, so
 * that tools which know tracepoints can decode it. Its size without arguments is 4 mod 8, and so with any
 * number of them: the kernel then has nothing to pad with stale bytes.
 * Rust's side: src/event/wire.rs.
 */
struct tracer_event {
	__u16 common_type;
	__u8 common_flags;
	__u8 common_preempt_count;
	__s32 common_pid;
	__u16 probe;
	__u8 level; /* sequence numbers count per CPU and level */
	__u8 zero;
	__u32 seq;
	__u32 tgid;
	__u32 pid;
	__u32 uid;
	__u64 cgroup;
	char comm[TRACER_COMM];
	__u64 args[TRACER_ARGS];
} __attribute__((packed, aligned(4)));

#define TRACER_EVENT_HEAD 52
_Static_assert(__builtin_offsetof(struct tracer_event, args) == TRACER_EVENT_HEAD, "the head has 52 bytes");
_Static_assert(TRACER_EVENT_HEAD % 8 == 4, "no padding");

/* The accounts of one probe on one CPU. Rust's side: Accounts in src/ledger.rs. */
struct tracer_accounts {
	__u64 fired;
	__u64 filtered;
	__u64 stored;
	__u64 emitted;
	__u64 enospc;
	__u64 enoent;
	__u64 e2big;
	__u64 eopnotsupp;
	__u64 ebusy;
	__u64 other;
	__u64 scratch;
	__u64 nomem;
	__u64 compat; /* part of filtered: system calls of 32-bit tasks */
	__u64 spare[3];
};
_Static_assert(sizeof(struct tracer_accounts) == 128, "two cache lines");

/* One scratch level of one CPU: who holds it builds an event in it. */
struct tracer_level {
	__u32 busy;
	__u32 seq; /* attempts to emit from this level; wraps */
	__u32 shift;
	struct tracer_event event;
	__u8 pad[8];
};
_Static_assert(sizeof(struct tracer_level) == 128, "two cache lines");
_Static_assert(__builtin_offsetof(struct tracer_level, event.args) % 8 == 0, "arguments are stored whole");

/* One CPU's scratch. Rust's side: src/probe/counters.rs. */
struct tracer_cpu {
	struct tracer_level level[TRACER_LEVELS];
	__u32 depth; /* levels in use, where levels nest strictly */
	__u32 pad[31];
};

/* What is in the map `targets`, by process or thread id. */
#define TRACER_TARGET_PROCESS 1 /* trace this process, and follow its children */
#define TRACER_TARGET_THREAD 2	/* trace this thread */
#define TRACER_TARGET_ARMED 4	/* becomes PROCESS when it calls execve */
#define TRACER_TARGET_OURS 8	/* our command: traced even where self would be left out */

/* Which filters are in force. */
#define TRACER_FILTER_TARGETS 1
#define TRACER_FILTER_UID 2
#define TRACER_FILTER_COMM 4
#define TRACER_FILTER_CGROUP 8
#define TRACER_FILTER_CPUS 16

/*
 * One probe's configuration, constant to the verifier: what is not used is not in the loaded program.
 * Rust's side sets members by name (src/probe/config.rs).
 */
struct tracer_config {
	__u32 probe;	   /* its id, and the second index of its accounts */
	__u32 probes;	   /* how many ids there are: accounts are indexed CPU x probe */
	__u32 common_type; /* the id of its event type in a perf.data file */
	__u32 nargs;	   /* arguments to capture */
	__u32 ret;	   /* capture the return value too */
	__u32 func_args;   /* how many parameters the function has: fexit finds the return value behind */
	__u32 copied;	   /* a trampoline's arguments are read by a helper */
	__u32 syscall;	   /* the number, where the hook sees every system call */
	__u32 filters;
	__u32 uid;
	__u32 excluded_len;
	__u32 excluded[TRACER_EXCLUDED];
	__u64 pidns_dev; /* the tracer's PID namespace; ino 0 = the initial one */
	__u64 pidns_ino;
	/* --comm as a bit-parallel automaton: bit i of D = the first i tokens of the pattern have matched */
	__u32 comm_loop;       /* states that stay on any byte: a '*' follows them */
	__u32 comm_accept;     /* the final state */
	__u32 comm_next[256];  /* states that a byte leads on from */
	__u16 field_offset[8]; /* tracepoints: where each captured field lies in the record */
	__u16 field_size[8];
	__u64 cpus[64]; /* those that are traced, a bit each */
};

#endif
