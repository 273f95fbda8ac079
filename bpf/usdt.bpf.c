// SPDX-License-Identifier: GPL-2.0
/*
 * The probe that a program's author put into it (USDT). An object of its own, as libbpf's part of
 * it brings maps that no other probe needs: what an argument's place is, by the probe's site.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
/* Not our code. */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wsign-compare"
#include <bpf/usdt.bpf.h>
#pragma clang diagnostic pop
#include "tracer.h"
#include "account.h"
#include "emit.h"

char LICENSE[] SEC("license") = "GPL";

SEC("usdt")
int probe_usdt(struct pt_regs *ctx)
{
	struct tracer_accounts *mine;
	struct tracer_level *level = start(ctx, &mine);

	if (!level)
		return 0;
		/* Unrolled, as each round must be dead code where its argument is not looked at. */
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < 6; i++) {
		if (i < config.nargs) {
			bpf_usdt_arg(ctx, i, (long *)&level->value);
			set_base(level, i, level->value);
		}
	}
	return close_event(ctx, mine, level);
}
