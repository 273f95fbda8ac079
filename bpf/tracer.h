/* SPDX-License-Identifier: GPL-2.0 */
/* What crosses between the kernel's side and ours: events, accounts, and the configuration of one
 * probe. */
#ifndef TRACER_H
#define TRACER_H

#define TRACER_LEVELS 4	     /* programs that can build an event at once on one CPU */
#define TRACER_FIELDS 16     /* fields that are captured, shown or for the predicate */
#define TRACER_STEPS 8	     /* pointers that are followed to a field */
#define TRACER_OPS 16	     /* operations of a predicate */
#define TRACER_TEXT 1024     /* most bytes of a string, buffer or stack */
#define TRACER_DYNAMIC 2048  /* most bytes of all of them, but for the last */
#define TRACER_PATH 512	     /* most bytes of a path, its NUL included */
#define TRACER_PATH_PARTS 24 /* most names and mounts on its way to the root */
#define TRACER_GATHER 3260   /* most bytes of a record that several events share */
#define TRACER_GATHERED 32   /* most events in it */
#define TRACER_EXCLUDED 64   /* processes never traced: ourselves and whoever reads us */
#define TRACER_COMM 16	     /* TASK_COMM_LEN */

/*
 * One event, at the very start of a sample's raw bytes. It opens with the kernel's trace-entry
 * head, so that tools which know tracepoints can decode it. After the head come slots of eight
 * bytes, one a field, then what strings and buffers need: a string's slot holds its length << 16
 * and its offset in the event, as a tracepoint's __data_loc does. The size is 4 mod 8 whatever is
 * captured: the kernel then has nothing to pad with stale bytes. Rust's side: src/schema/wire.rs.
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
	__u8 body[8 * TRACER_FIELDS + TRACER_DYNAMIC + TRACER_TEXT + 8];
	__u8 judged[8 * TRACER_FIELDS]; /* what the predicate alone needs: not emitted */
} __attribute__((packed));

#define TRACER_EVENT_HEAD 52
_Static_assert(__builtin_offsetof(struct tracer_event, body) == TRACER_EVENT_HEAD,
	       "the head has 52 bytes");
_Static_assert(__builtin_offsetof(struct tracer_event, judged) % 8 == 4, "slots are stored whole");
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
	__u64 compat;	  /* part of filtered: system calls of 32-bit tasks */
	__u64 unpaired;	  /* part of filtered: returns without an entry */
	__u64 paired;	  /* entries that met their return */
	__u64 unreturned; /* entries whose place another took: they never returned */
	__u64 tallied;	  /* runs that were added to a tally */
	__u64 gathered;	  /* events that were put into a record which others share */
	__u64 sent;	  /* of these, those in records that were emitted */
	__u64 unsent;	  /* and those in records that failed */
	__u64 pad[4];
};
_Static_assert(sizeof(struct tracer_accounts) == 192, "three cache lines");

#define TRACER_ARGS 6
#define TRACER_BASES 16

/* By what an entry and its return know each other: the thread, and the place of the call's frame.
 */
struct tracer_key {
	__u64 place;
	__u32 thread;
	__u32 zero;
};

/* What an entry keeps for its return: `bases` of a level, up to where its time stands. */
struct tracer_half {
	__u64 args[TRACER_ARGS];
	__u64 spare;
	__u64 time;
};

/*
 * One scratch level of one CPU: who holds it builds an event in it. Whatever a program needs beyond
 * a few words is in here and not on its stack: see open_event in emit.h.
 */
struct tracer_level {
	__u32 busy;
	__u32 seq; /* attempts to emit from this level; wraps */
	__u32 shift;
	struct tracer_event event;
	__u64 bases[TRACER_BASES]; /* what the fields start from */
	struct tracer_key key;
	__u64 dynamic; /* bytes of the dynamic space in use */
	__u64 faults;  /* which fields could not be read */
	__u64 value;   /* what a helper reads into */
	__u64 dentry;  /* where a path is, on its way to the root */
	__u64 mnt;
	__u8 path[TRACER_PATH + 256]; /* it grows from its end; a name is written whole */
};
_Static_assert(sizeof(struct tracer_level) == 4352, "whole cache lines");
_Static_assert(__builtin_offsetof(struct tracer_level, event.body) % 8 == 0,
	       "slots are stored whole");

/* One CPU's scratch. Rust's side: src/probe/counters.rs. */
struct tracer_cpu {
	struct tracer_level level[TRACER_LEVELS];
	__u32 depth;			/* levels in use, where levels nest strictly */
	__u32 nothing;			/* always 0, which the verifier does not know */
	struct tracer_accounts records; /* what became of records that events share */
	__u32 pad[206]; /* as far as the verifier sees the last string of the last level reach */
};
_Static_assert(sizeof(struct tracer_cpu) == TRACER_LEVELS * 4352 + 1024, "whole cache lines");

/*
 * The events of one scratch level that wait for their record to be full: whoever holds the level
 * holds this. A record opens with TRACER_SHARED, where an event has its type, and two zero bytes;
 * before each event stand its size, four bytes, and its time, eight. The record's size is 4 mod 8
 * as each event's is. Rust's side: src/schema/shared.rs, and src/probe/counters.rs for `n`.
 */
#define TRACER_SHARED 0
#define TRACER_SHARED_HEAD 4
#define TRACER_EVENT_BEFORE 12

struct tracer_gather {
	__u32 n;
	__u32 used; /* bytes of the record */
	__u16 probe[TRACER_GATHERED];
	__u8 bytes[TRACER_GATHER + sizeof(struct tracer_event)];
	__u8 pad[8];
};
_Static_assert(sizeof(struct tracer_gather) == 6728, "a multiple of eight, as the array has it");

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

/* How a field's bytes are come by, after its address was. */
#define TRACER_FETCH_VALUE 0  /* the address is the value */
#define TRACER_FETCH_MEMORY 1 /* an integer there */
#define TRACER_FETCH_TEXT 2   /* a string there, up to its NUL */
#define TRACER_FETCH_BYTES 3  /* bytes there */
#define TRACER_FETCH_WORDS 4  /* a string there, into slots of the predicate's */
#define TRACER_FETCH_STACK 5  /* the kernel's stack, or the user's */
#define TRACER_FETCH_PATH 6   /* the path of a struct path there */
#define TRACER_FETCH_DENTRY 7 /* the path of a dentry within its file system */

/* What a field starts from: six arguments, a return value, a tracepoint's record, and what is known
 * of any run. */
#define TRACER_BASE_RET 6
#define TRACER_BASE_RECORD 7
#define TRACER_BASE_LAT 8  /* nanoseconds since the entry */
#define TRACER_BASE_TIME 9 /* CLOCK_MONOTONIC nanoseconds */
#define TRACER_BASE_CPU 10
#define TRACER_BASE_GID 11
#define TRACER_BASE_FUNC 12 /* the address of the function */

/* Where the address of the function is known from. */
#define TRACER_FUNC_KPROBE 0 /* the registers, at its entry */
#define TRACER_FUNC_HELPER 1 /* a helper: at its return, and in a trampoline */
#define TRACER_FUNC_UPROBE 2 /* the user's registers, at its entry */

/* How a program that serves many functions knows which one it runs for. */
#define TRACER_MANY_COOKIE 1  /* by the attachment's cookie */
#define TRACER_MANY_ADDRESS 2 /* by the function's address, in the map `functions` */

/* One field: from an argument over pointers to a value. */
struct tracer_fetch {
	__u8 base;
	__u8 nsteps; /* pointers to follow */
	__u8 kind;
	__u8 sign;	 /* the integer is signed */
	__u8 shl, shr;	 /* a shift left, then right, cuts the integer out of what was read */
	__u8 user;	 /* the last read is of user memory */
	__u8 user_steps; /* and so is every pointer on the way */
	__u16 at;	 /* its slot's place in the event */
	__u16 size;	 /* bytes: of the integer, or the most of a string or buffer */
	__u8 loc; /* a tracepoint's __data_loc (1) or __rel_loc (2) stands there: the place of the
		     bytes */
	__u8 pad[3];
	__s64 last; /* what is added after the last pointer */
	__s64 off[TRACER_STEPS];
};

/* What a comparison can find, and one operation of a predicate on a stack of truths. */
#define TRACER_LESS 1
#define TRACER_EQUAL 2
#define TRACER_MORE 4

#define TRACER_OP_COMPARE 0
#define TRACER_OP_AND 1
#define TRACER_OP_OR 2
#define TRACER_OP_NOT 3
#define TRACER_OP_GLOB 4 /* a string in slots, against `glob_next` */
#define TRACER_GLOB 128	 /* the most bytes of such a string */

struct tracer_op {
	__u8 kind;
	__u8 want;  /* of LESS, EQUAL, MORE */
	__u8 fault; /* the field whose fault makes it false; 63: none */
	__u8 pad;
	__u16 at;	/* the slot compared */
	__u16 size;	/* GLOB: the most bytes of the string */
	__u64 mask;	/* GLOB: the states that stay on any byte */
	__u64 bias;	/* the sign bit for signed comparisons */
	__u64 constant; /* GLOB: the final state */
};

/* What a tally is of, and what runs that share one have in common. */
#define TRACER_BY_NUMBER 1
#define TRACER_BY_COMM 2
#define TRACER_BY_KSTACK 3
#define TRACER_BY_USTACK 4

#define TRACER_FRAMES 127 /* of a stack that is a key */
#define TRACER_BUCKETS 66 /* below zero, zero, and one for each number of bits */

/* Where an integer stands in the event. Rust's side: src/probe/keep.rs. */
struct tracer_number {
	__u16 at;
	__u8 kind;  /* TRACER_BY_…; 0: none */
	__u8 shift; /* a shift left, then right, cuts it out of the eight bytes there */
	__u8 sign;
	__u8 fault; /* the field whose fault it shares; 63: none */
	__u16 pad;
};

/* What runs of one tally have in common. Rust's side: src/schema/tally.rs. */
struct tracer_group {
	__u64 words[2]; /* a number, a name, or a stack's id and its process */
	__u32 probe;
	__u32 cpu;
	__u32 level;
	__u32 why; /* the errno for which the key could not be had */
};

/* What is known of the runs of a group. Rust's side: src/schema/tally.rs. */
struct tracer_tally {
	__u64 count;
	__u64 valued; /* runs whose value could be read: the others are in `count` alone */
	__u64 sum;    /* modulo 2^64 */
	__u64 min;
	__u64 max;
	__u64 histogram[TRACER_BUCKETS];
};

/*
 * One probe's configuration, constant to the verifier: what is not used is not in the loaded
 * program. Rust's side sets members by name (src/probe/config.rs).
 */
struct tracer_config {
	__u32 probe;	   /* its id, and the second index of its accounts */
	__u32 probes;	   /* how many ids there are: accounts are indexed CPU x probe */
	__u32 common_type; /* the id of its event type in a perf.data file */
	__u32 nargs;	   /* arguments that are looked at */
	__u32 ret;	   /* the return value is looked at */
	__u32 nfetch;	   /* fields to capture */
	__u32 njudged;	   /* of these, those that come before the predicate */
	__u32 nops;	   /* operations of the predicate */
	__u32 judges_task; /* they compare what only helpers tell of the task */
	__u32 dynamic;	   /* where strings begin in the event: its size without any */
	__u32 faults_at;   /* the slot of which fields could not be read; 0: none can fail */
	__u32 builtins;	   /* bases from LAT on that are looked at, a bit each */
	__u32 pair;	   /* a return is an event only with its entry */
	__u32 sp_delta;	   /* from a function's stack pointer at entry to the one at its return */
	__u32 many;	   /* how the probe's id is found, where one program serves several */
	__u32 func;	   /* where the function's address is known from */
	__u32 func_args;   /* how many parameters the function has: fexit finds the return value
			      behind */
	__u32 copied;	   /* a trampoline's arguments are read by a helper */
	__u32 syscall;	   /* the number, where the hook sees every system call */
	__u32 filters;
	__u32 uid;
	__u32 excluded_len;
	__u32 excluded[TRACER_EXCLUDED];
	__u32 gather;		 /* events that share a record; 1: each has its own */
	__u32 tally;		 /* runs are added to tallies, and nothing is emitted */
	struct tracer_number by; /* what tallies are told apart by */
	struct tracer_number of; /* what their sums and histograms are of */
	__u64 pidns_dev;	 /* the tracer's PID namespace; ino 0 = the initial one */
	__u64 pidns_ino;
	/* --comm as a bit-parallel automaton: bit i of D = the first i tokens of the pattern have
	 * matched */
	__u32 comm_loop;      /* states that stay on any byte: a '*' follows them */
	__u32 comm_accept;    /* the final state */
	__u32 comm_next[256]; /* states that a byte leads on from */
	__u64 cpus[64];	      /* those that are traced, a bit each */
	struct tracer_fetch fetch[TRACER_FIELDS];
	struct tracer_op ops[TRACER_OPS];
	__u64 glob_next[256]; /* of the predicate's one pattern: as comm_next */
};

_Static_assert(__builtin_offsetof(struct tracer_config, pidns_dev) ==
		       __builtin_offsetof(struct tracer_config, of) + sizeof(struct tracer_number),
	       "no hole");

#endif
